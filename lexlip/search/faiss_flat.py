"""Brute force over dense vectors with Faiss: what dense models are searched with, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from lexlip.errors import ConfigError
from lexlip.search.engines import Results


class FaissFlat:
    """All dot products of unit vectors, which are cosines, from an IndexFlatIP.

    Args:
        dimensions: D.
        threads: of the processor.
        batch: queries that are scored at a time. One is what a single user waits for; from some twenty on
            Faiss multiplies matrices, many times faster.

    Raises:
        ConfigError: Faiss is not installed.
    """

    def __init__(self, dimensions: int, threads: int = 1, batch: int = 1) -> None:
        self._faiss = _import_faiss()
        self._index = self._faiss.IndexFlatIP(dimensions)
        self.ids: list[str] = []
        self.threads, self.batch = threads, batch

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, ids: Sequence[str], vectors: csr_matrix) -> None:
        """Adds n documents, [n, D]."""
        self._index.add(_unit(vectors))
        self.ids += ids

    def shared(self, threads: int, batch: int) -> FaissFlat:
        """The same documents, not copied, for another number of threads, and of queries at a time."""
        engine = FaissFlat(self._index.d, threads, batch)
        engine._index, engine.ids = self._index, self.ids
        return engine

    def save(self, path: str | Path) -> None:
        """Writes the vectors, without ids, to a file of Faiss's."""
        self._faiss.write_index(self._index, str(path))

    def search(self, queries: csr_matrix, k: int) -> Results:
        """See `lexlip.search.engines.Engine`; scores are cosines."""
        rows = _unit(queries)
        k = min(k, len(self.ids))
        before = self._faiss.omp_get_max_threads()
        self._faiss.omp_set_num_threads(self.threads)
        try:
            parts = range(0, len(rows) if k else 0, self.batch)
            found = [self._index.search(rows[start : start + self.batch], k) for start in parts]
        finally:
            self._faiss.omp_set_num_threads(before)
        if not found:
            return [[] for _ in rows], [np.empty(0, dtype=np.float32) for _ in rows]
        ids = [[self.ids[row] for row in best] for _, part in found for best in part.tolist()]
        return ids, [row for part, _ in found for row in part]


def _unit(vectors: csr_matrix) -> np.ndarray:
    """float32 [n, D], each of length 1 (or 0)."""
    full: np.ndarray = vectors.toarray().astype(np.float32)
    return full / np.maximum(np.linalg.norm(full, axis=1, keepdims=True), 1e-12)


def _import_faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise ConfigError("dense vectors are searched with Faiss: pip install faiss-cpu") from None
    return faiss
