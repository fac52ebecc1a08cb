"""Documents of K words that answer as the whole vectors do: static pruning by likely queries.

A photo's K heaviest words are not the K that its scores need most. Some are hardly ever asked for, and of two
that are asked for together one can stand for both. So queries of the training data decide, the NEAR best ones
for the document. Its HEAVIEST words stay, because people read them. The other places go to the words that add
most to the scores: weight times mean weight in these queries. Then a ridge regression changes the weights of
the kept words so that these queries get the scores of the whole document.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

NEAR = 256  # queries that decide what a document keeps
HEAVIEST = 10  # words that it keeps in any case
RARE = 0.05  # added to a word's mean weight in these queries, as others may ask for it
RIDGE = 0.5  # of the change of weights, relative to a kept word's mean squared length in these queries
ROWS = 256  # documents that are compared with the queries at a time


def abridge(unit: csr_matrix, k: int, queries: csr_matrix) -> csr_matrix:
    """Return documents of at most k words in place of whole ones; what has no more words stays as it is.

    Args:
        unit: the documents, unit vectors without negative entries, float32 [n, V].
        k: words that a document keeps.
        queries: unit vectors, float32 [m, V].

    Returns:
        float32 [n, V], not of unit length.
    """
    columns = queries.T.tocsr()
    place = np.full(unit.shape[1], -1)
    rows: list[tuple[NDArray[np.float32], NDArray[np.int32]]] = []
    for start in range(0, unit.shape[0], ROWS):
        block = unit[start : start + ROWS]
        scores = (block @ columns).toarray()  # [ROWS, m]
        for number, best in enumerate(_nearest(scores)):
            row = slice(*block.indptr[number : number + 2])
            weights, words = block.data[row], block.indices[row]
            if len(words) > k:
                place[words] = np.arange(len(words))
                asked = _on_words(queries[best], place, len(words))
                place[words] = -1
                kept = _kept(weights, asked, k)
                weights, words = _fitted(weights[kept], asked[:, kept], scores[number, best]), words[kept]
            rows.append((weights, words))
    starts = np.cumsum([0, *(len(words) for _, words in rows)])
    weights, words = (np.concatenate(part) for part in zip(*rows, strict=True)) if rows else ((), ())
    abridged = csr_matrix((weights, words, starts), shape=unit.shape, dtype=np.float32)
    abridged.eliminate_zeros()
    return abridged


def _nearest(scores: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the columns of each row's NEAR best scores, or of all."""
    near = min(NEAR, scores.shape[1])
    return np.argpartition(scores, -near, axis=1)[:, -near:]


def _on_words(queries: csr_matrix, place: NDArray[np.int64], number: int) -> NDArray[np.float32]:
    """Return the queries' weights of a document's words, [m, number]; `place` [V] says where each word is."""
    found = np.zeros((queries.shape[0], number), dtype=np.float32)
    columns = place[queries.indices]
    held = columns >= 0
    found[np.repeat(np.arange(len(found)), np.diff(queries.indptr))[held], columns[held]] = queries.data[held]
    return found


def _kept(weights: NDArray[np.float32], asked: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return which k words of a document stay, ascending; `asked` [m, n] are their weights in queries."""
    adds = weights * (asked.mean(axis=0) + RARE)
    adds[np.argsort(-weights, kind="stable")[: min(k, HEAVIEST)]] = np.inf
    return np.sort(np.argsort(-adds, kind="stable")[:k])


def _fitted(
    weights: NDArray[np.float32], asked: NDArray[np.float32], scores: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return weights w + d with the smallest |asked (w + d) - scores|² + ridge |d|², but none below 0.

    Args:
        weights: of the kept words, w, [k].
        asked: the words' weights in queries, [m, k].
        scores: of the whole document for these queries, [m].
    """
    products = asked.T @ asked
    ridge = max(RIDGE * float(np.trace(products)) / len(weights), 1e-12)
    change = np.linalg.solve(products + ridge * np.eye(len(weights)), asked.T @ (scores - asked @ weights))
    return np.maximum(weights + change, 0).astype(np.float32)
