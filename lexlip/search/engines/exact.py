"""Brute force over float vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from scipy.sparse import csr_matrix

from lexlip.registry import Metric
from lexlip.retrieval.engine import Results
from lexlip.sparse.balance import unit_length

FULL = 0.25  # share of non-zero entries from which on a dense product is faster than a sparse one


class ExactEngine:
    """Brute force over float vectors [n, V], which indexes are measured against.

    Weights and scores may be negative, as those of dense models are. A document that shares no word with the
    query has score 0 and is not found.

    Args:
        rows: queries scored at a time; their scores, [rows, n], are held.
        metric: the score of a document and a query.
        keep_lengths: cosines are times the lengths of documents, which were balanced.
    """

    def __init__(
        self,
        ids: Sequence[str],
        vectors: csr_matrix,
        rows: int = 256,
        metric: Metric = "dot",
        keep_lengths: bool = False,
    ) -> None:
        self.ids, self.metric = np.array(ids, dtype=object), metric
        as_given = metric == "dot" or keep_lengths
        columns = csr_matrix(vectors if as_given else unit_length(vectors)).T  # [V, n]
        self.is_full = columns.nnz > FULL * np.prod(columns.shape)
        self.columns = columns.toarray() if self.is_full else columns.tocsr()
        self.rows = rows

    def search(self, queries: csr_matrix, k: int) -> Results:
        if self.metric == "cosine":
            queries = unit_length(queries)
        ids: list[list[str]] = []
        scores: list[np.ndarray] = []
        for start in range(0, queries.shape[0], self.rows):
            block = self._scores(queries[start : start + self.rows])
            block[block == 0] = -np.inf  # behind the negative ones
            order = np.argsort(-block, axis=1, kind="stable")[:, :k]
            for row, best in zip(block, order, strict=True):
                best = best[row[best] > -np.inf]
                ids.append(list(self.ids[best]))
                scores.append(row[best])
        return ids, scores

    def _scores(self, queries: csr_matrix) -> np.ndarray:
        """Return the scores, [rows, n]."""
        if self.is_full:
            full: np.ndarray = queries.toarray() @ self.columns
            return full
        return (queries @ self.columns).toarray()


@contextmanager
def exact_engine(
    ids: Sequence[str],
    vectors: csr_matrix,
    metric: Metric = "cosine",
    keep_lengths: bool = False,
) -> Iterator[ExactEngine]:
    """Give an ExactEngine for a `with` block, as every `EngineOf` does."""
    yield ExactEngine(ids, vectors, metric=metric, keep_lengths=keep_lengths)
