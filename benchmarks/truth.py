"""Brute force, and how many of its k best documents an engine finds; equal scores are equally good."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.corpus.corpus import SLICE, Corpus

QUERIES = 64  # scored at a time
ROUNDING = 1e-6  # of cosines, which libraries sum in other orders


class SparseTruth:
    """Brute force over the integer weights of a corpus, for its first queries.

    Attributes:
        best: scores of the k best documents, best first, int64 [queries, k]; 0 if no more share a term.
    """

    def __init__(self, corpus: Corpus, queries: int, k: int) -> None:
        self.corpus = corpus
        rows = corpus.queries[:queries].astype(np.int64)
        columns = (documents.T.tocsr() for _, documents in corpus.slices())  # [V, n]
        self.best = _best(rows, columns, k)

    def recall(self, query: int, found: Sequence[int]) -> float:
        """Return the share of the best documents that were found."""
        return share_found(self.best[query], self.corpus.scores(query, _distinct(found)))


class DenseTruth:
    """Brute force over the dense vectors, by cosine; see `SparseTruth`."""

    def __init__(self, corpus: Corpus, queries: int, k: int) -> None:
        self.vectors, self.queries = corpus.dense, corpus.dense_queries[:queries]
        starts = range(0, len(self.vectors), SLICE)
        self.best = _best(self.queries, (self.vectors[start : start + SLICE].T for start in starts), k)

    def recall(self, query: int, found: Sequence[int]) -> float:
        """Return the share of the best documents that were found."""
        scores = self.vectors[_distinct(found)] @ self.queries[query]
        return share_found(self.best[query] - ROUNDING, scores)


def share_found(best: NDArray[Any], found: NDArray[Any]) -> float:
    """Return the share of the best documents that a search found, from 0 to 1.

    Given are the k best scores, best first, and the true scores of the documents that were found, each once.
    Documents with scores of 0 and less need not be found.
    """
    wanted = best[best > 0]
    if not len(wanted):
        return 1.0
    return min(int((found >= wanted[-1]).sum()), len(wanted)) / len(wanted)


def _distinct(documents: Sequence[int]) -> NDArray[np.int64]:
    return np.unique(np.array(documents, np.int64))


def _best(queries: Any, columns: Iterator[Any], k: int) -> NDArray[Any]:
    """Return the k highest scores of each query, highest first: of queries [n, V] with columns [V, N]."""
    best: NDArray[Any] | None = None
    for block in columns:
        parts = []
        for start in range(0, queries.shape[0], QUERIES):
            scores = queries[start : start + QUERIES] @ block
            scores = scores if isinstance(scores, np.ndarray) else scores.toarray()
            parts.append(np.partition(scores, -k, axis=1)[:, -k:] if scores.shape[1] > k else scores)
        joined = np.concatenate(parts)
        best = joined if best is None else np.concatenate([best, joined], axis=1)
    assert best is not None
    return np.sort(best, axis=1)[:, ::-1][:, :k]
