"""The first stage of LexLIP: words of photos in an impact index of Lucene's."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from scipy.sparse import csr_matrix

from anserini_bridge import ImpactSearcher, IndexMetadata, read_metadata
from lexlip.search.encoder import load_encoder, load_queries
from lexlip.search.engines import LuceneEngine
from lexlip.search.first_stage import Found
from lexlip.sparse.topk import topk

if TYPE_CHECKING:
    from lexlip.models.encoder import QueryEncoder
    from lexlip.models.lexlip import LexLIP


class WordStage:
    """See `FirstStage`; torch is loaded by the first picture that searches.

    Args:
        index: the index's folder.
        model, query_encoder, query_topk: see `PhotoSearch`.
    """

    def __init__(
        self,
        index: Path,
        model: str | None = None,
        query_encoder: QueryEncoder = "network",
        query_topk: int | None = None,
    ) -> None:
        self.index, self.model = index, model
        self.queries = load_queries(index, read_metadata(index), model, query_encoder)
        self.searcher = ImpactSearcher(index, self.queries.vocabulary.words)
        self.engine, self.query_topk = LuceneEngine(self.searcher), query_topk

    @property
    def metadata(self) -> IndexMetadata:
        return self.searcher.metadata

    @cached_property
    def encoder(self) -> LexLIP:
        return load_encoder(self.index, self.metadata, self.model)

    def encode(self, query: str) -> csr_matrix:
        return topk(self.queries.encode(query), self.query_topk)  # pictures keep all of their words

    def unknown(self, query: str) -> list[str]:
        return self.queries.unknown(query)

    def find(self, query: csr_matrix, k: int) -> Found:
        impacts, unit = self.engine.quantized(query), self.engine.unit
        (ids,), (scores,) = self.searcher.search(impacts, k)
        matches = self.searcher.contributions(impacts, ids)
        return Found(
            ids, scores / unit, [self._named(row, unit) for row in matches], self._named(impacts, unit**0.5)
        )

    def close(self) -> None:
        self.searcher.close()

    def _named(self, row: csr_matrix, unit: float) -> dict[str, float]:
        """The entries of one row as {word: weight}, heaviest first."""
        entries = sorted(zip(row.indices, row.data, strict=True), key=lambda entry: (-entry[1], entry[0]))
        return {self.searcher.vocabulary[column]: float(weight) / unit for column, weight in entries}
