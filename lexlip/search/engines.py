"""Search engines with one interface: `search(queries, k) -> ids, scores`, best first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
from scipy.sparse import csr_matrix, diags_array

Results = tuple[list[list[str]], list[np.ndarray]]
"""For each query the ids and the scores of its hits, best first; only documents that share a term."""


class Engine(Protocol):
    """What answers queries."""

    def search(self, queries: csr_matrix, k: int) -> Results:
        """The k best documents of each query row, [n, V]."""
        ...


class ExactEngine:
    """Brute force over float vectors: what an index is measured against.

    Args:
        ids: n ids.
        vectors: [n, V]; the score is the dot product, so normalise them first for a cosine.
        rows: queries scored at a time; a block of [rows, n] scores is held.
    """

    def __init__(self, ids: Sequence[str], vectors: csr_matrix, rows: int = 256) -> None:
        self.ids = np.array(ids, dtype=object)
        self.columns = csr_matrix(vectors).T.tocsr()  # [V, n]
        self.rows = rows

    def search(self, queries: csr_matrix, k: int) -> Results:
        ids: list[list[str]] = []
        scores: list[np.ndarray] = []
        for start in range(0, queries.shape[0], self.rows):
            block = (queries[start : start + self.rows] @ self.columns).toarray()  # [rows, n]
            order = np.argsort(-block, axis=1, kind="stable")[:, :k]
            for row, best in zip(block, order, strict=True):
                best = best[row[best] > 0]
                ids.append(list(self.ids[best]))
                scores.append(row[best])
        return ids, scores


@contextmanager
def exact_engine(ids: Sequence[str], vectors: csr_matrix) -> Iterator[ExactEngine]:
    """An ExactEngine whose scores order documents by their cosine with the query."""
    norms = np.sqrt(vectors.multiply(vectors).sum(axis=1)).A1
    yield ExactEngine(ids, diags_array(1 / np.maximum(norms, 1e-12)) @ vectors)
