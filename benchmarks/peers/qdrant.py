"""Qdrant's engine in this process (qdrant-edge-py): an inverted index of sparse vectors, exact."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.peers.library import Library, terms_and_weights

NAME = "words"  # of the sparse vector of a point
POINTS = 10_000  # added in one call


class Qdrant(Library):
    """A shard of one segment, without dense vectors, payloads, and a log of what was written.

    Weights are float32, so scores are exact as long as they stay below 2^24. `optimize` makes the inverted
    index immutable, however few documents there are, and keeps it in memory: the engine's fastest form.
    """

    modules = ("qdrant_edge",)
    pip = "qdrant-edge-py"
    index = "qdrant"
    builds_with_threads = False

    @property
    def qdrant(self) -> ModuleType:
        import qdrant_edge

        return qdrant_edge

    def build(self, staged: Path) -> None:
        shard = self.qdrant.EdgeShard.create(str(self.folder), self._config())
        for start in range(0, self.corpus.sizes.documents, POINTS):
            rows = self.corpus.rows(start, min(start + POINTS, self.corpus.sizes.documents))
            points = [
                self.qdrant.Point(number, {NAME: self.qdrant.SparseVector(*vector)}, {})
                for number, vector in enumerate(terms_and_weights(rows), start)
            ]
            shard.update(self.qdrant.UpdateOperation.upsert_points(points))
        shard.optimize()
        shard.flush()
        shard.close()

    def open(self) -> None:
        self.shard = self.qdrant.EdgeShard.load(str(self.folder), self._config())

    def _config(self) -> Any:
        return self.qdrant.EdgeConfig(
            vectors={},
            sparse_vectors={NAME: self.qdrant.EdgeSparseVectorParams(memory=self.qdrant.Memory.Pinned)},
            optimizers=self.qdrant.EdgeOptimizersConfig(default_segment_number=1, indexing_threshold=1),
            max_search_threads=self.threads,
            wal_enabled=False,
        )

    def native(self, number: int) -> Any:
        (vector,) = terms_and_weights(self.corpus.queries[number])
        return self.qdrant.Query.Nearest(self.qdrant.SparseVector(*vector), using=NAME)

    def search_one(self, query: Any, k: int) -> Any:
        return self.shard.query(self.qdrant.QueryRequest(limit=k, query=query))

    def documents(self, hits: Any) -> list[int]:
        return [hit.id for hit in hits]
