"""Which K words of a vector stay: the heaviest (Section 3.4), or those that queries ask for most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lexlip.sparse.rows import owners

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

NEAR = 512  # queries that decide what a document keeps
HEAVIEST = 3  # the K words that it keeps include its K // HEAVIEST heaviest
RIDGE = 0.05  # of the change of weights: this share of the words' squared lengths in these queries, over K
ROUND = 0.2  # of the words may leave before the weights are fitted anew


def topk(vectors: csr_matrix, k: int | None) -> csr_matrix:
    """Return the K heaviest positive entries of each row of [n, V]; None keeps all of them.

    Ties go to the smaller column, so that the result does not depend on the order of the entries.

    Raises:
        ValueError: k < 1.
    """
    from scipy.sparse import csr_matrix

    vectors = csr_matrix(vectors, copy=True)
    vectors.data[vectors.data < 0] = 0
    vectors.eliminate_zeros()
    vectors.sort_indices()
    if k is None:
        return vectors
    if k < 1:
        raise ValueError(f"top-K must be at least 1, not {k}")
    lengths = np.diff(vectors.indptr)
    if lengths.max(initial=0) <= k:
        return vectors
    order = np.lexsort((vectors.indices, -vectors.data.astype(np.float64), owners(vectors)))  # by row first
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(vectors.indptr[:-1], lengths)
    kept = rank < k
    indptr = np.concatenate([[0], np.cumsum(np.minimum(lengths, k))])
    return csr_matrix((vectors.data[kept], vectors.indices[kept], indptr), shape=vectors.shape)


def heaviest(vector: NDArray[np.float32], k: int | None) -> NDArray[np.float32]:
    """Return a vector [V] with its K heaviest positive entries only, as `topk` does for rows."""
    columns = np.flatnonzero(~(vector <= 0))
    columns = columns[np.argsort(-vector[columns], kind="stable")[:k]]
    kept = np.zeros_like(vector)
    kept[columns] = vector[columns]
    return kept


def prune(unit: csr_matrix, k: int, queries: csr_matrix, scores: NDArray[np.float32]) -> csr_matrix:
    """Return documents of at most k words, float32 [n, V], not of unit length; shorter ones stay as they are.

    A photo's K heaviest words are not the K that its scores need most. Some are hardly ever asked for, and of
    two that are asked for together one can stand for both. So queries of the training data decide, the NEAR
    best ones for the document. In rounds, those words leave without which these queries' scores change least
    once the weights of the others have made up for it: Optimal Brain Surgeon (Hassibi and Stork, 1992) for a
    ridge regression. The heaviest third of K words stays in any case, because people read them.

    Args:
        unit: the whole documents, unit vectors without negative entries, float32 [n, V].
        k: words that a document keeps.
        queries: unit vectors, float32 [m, V].
        scores: of the documents for the queries, [n, m].
    """
    from scipy.sparse import csr_matrix

    place = np.full(unit.shape[1], -1)
    rows: list[tuple[NDArray[np.float32], NDArray[np.int32]]] = []
    for number, best in enumerate(_near(scores)):
        row = slice(*unit.indptr[number : number + 2])
        weights, words = unit.data[row], unit.indices[row]
        if len(words) > k:
            place[words] = np.arange(len(words))
            asked = _on_words(queries[best], place, len(words))
            place[words] = -1
            kept, weights = _fitted(weights, asked, k)
            words = words[kept]
        rows.append((weights, words))
    starts = np.cumsum([0, *(len(words) for _, words in rows)])
    weights, words = (np.concatenate(part) for part in zip(*rows, strict=True)) if rows else ((), ())
    pruned = csr_matrix((weights, words, starts), shape=unit.shape, dtype=np.float32)
    pruned.eliminate_zeros()
    return pruned


def _near(scores: NDArray[np.float32]) -> NDArray[np.int64]:
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


def _fitted(
    weights: NDArray[np.float32], asked: NDArray[np.float32], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return which k words of a document stay, int64 [k], ascending, and their new weights, float32 [k] ≥ 0.

    Of the weights w of n > k words, and `asked`, those in m queries, [m, n], the new weights v, 0 for words
    that left, have the smallest (v - w)ᵀ H (v - w) = |asked (v - w)|² + ridge |v - w|². To drop one more word
    i adds v_i² / (H⁻¹)_ii to it.
    """
    matrix = (asked.T @ asked).astype(np.float64)
    matrix[np.diag_indices_from(matrix)] += max(RIDGE * float(np.trace(matrix)) / k, 1e-12)
    heavy = np.zeros(len(weights), dtype=bool)
    heavy[np.argsort(-weights, kind="stable")[: k // HEAVIEST]] = True
    inverse, fitted, kept = np.linalg.inv(matrix), weights.astype(np.float64), np.arange(len(weights))
    while len(kept) > k:
        adds = np.where(heavy[kept], np.inf, fitted**2 / np.diag(inverse))
        order = np.argsort(-adds, kind="stable")
        stay, leave = np.split(order, [max(k, int(len(kept) * (1 - ROUND)))])
        stay.sort()
        across = np.linalg.solve(inverse[np.ix_(leave, leave)], inverse[leave])  # [left, n]
        fitted = (fitted - fitted[leave] @ across)[stay]
        inverse = (inverse - inverse[:, leave] @ across)[np.ix_(stay, stay)]
        kept = kept[stay]
    return kept, np.maximum(fitted, 0).astype(np.float32)
