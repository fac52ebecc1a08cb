"""The first stage of LexLIP: words of photos in an impact index of Lucene's."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from scipy.sparse import csr_matrix, vstack

from anserini_bridge import ImpactSearcher, IndexMetadata, read_metadata
from lexlip.machine import cores
from lexlip.retrieval.engine import Results
from lexlip.retrieval.first_stage import Found
from lexlip.search.engines.lucene import LuceneEngine
from lexlip.search.stages.index_model import load_encoder, load_queries
from lexlip.sparse.query_topk import PICTURE_TOPK, SENTENCE_TOPK
from lexlip.sparse.topk import topk

if TYPE_CHECKING:
    from lexlip.models.contract import QueryEncoder
    from lexlip.models.lexlip import LexLIP


class ImpactStage:
    """See `FirstStage`. torch is loaded only when a picture is searched with.

    Args:
        index, model, query_encoder, query_topk, device: see `lexlip.search.open_index.open_index`.
    """

    def __init__(
        self,
        index: Path,
        model: str | None = None,
        query_encoder: QueryEncoder = "network",
        query_topk: int | None = SENTENCE_TOPK,
        device: str = "auto",
    ) -> None:
        self.index, self.model, self.device = index, model, device
        self.queries = load_queries(index, read_metadata(index), model, query_encoder)
        self.searcher = ImpactSearcher(index, self.queries.vocabulary.words)
        self.engine, self.query_topk = LuceneEngine(self.searcher, PICTURE_TOPK), query_topk

    @property
    def metadata(self) -> IndexMetadata:
        return self.searcher.metadata

    @cached_property
    def encoder(self) -> LexLIP:
        return load_encoder(self.index, self.metadata, self.model, self.device)

    def encode(self, query: str) -> csr_matrix:
        return topk(self.queries.encode(query), self.query_topk)

    def unknown(self, query: str) -> list[str]:
        return self.queries.unknown(query)

    def search(self, queries: Sequence[csr_matrix], k: int) -> Results:
        return self.engine.search(vstack(queries, format="csr"), k)

    def find(self, queries: Sequence[csr_matrix], k: int) -> list[Found]:
        impacts, unit = self.engine.quantized(vstack(queries, format="csr")), self.engine.unit
        ids, scores = self.searcher.search(impacts, k, threads=min(len(queries), cores()))
        found = []
        for row, (hits, points) in enumerate(zip(ids, scores, strict=True)):
            matches = self.searcher.contributions(impacts[row], hits)
            words = [self._named(match, unit) for match in matches]
            found.append(Found(hits, points / unit, words, self._named(impacts[row], unit**0.5)))
        return found

    @contextmanager
    def hold(self) -> Iterator[ImpactStage]:
        with self.searcher.hold() as searcher:
            held = copy.copy(self)
            held.searcher, held.engine = searcher, LuceneEngine(searcher, PICTURE_TOPK)
            yield held

    def refresh(self) -> bool:
        return self.searcher.refresh()

    def close(self) -> None:
        self.searcher.close()

    def _named(self, row: csr_matrix, unit: float) -> dict[str, float]:
        """Return the entries of one row as {word: weight}, heaviest first."""
        entries = sorted(zip(row.indices, row.data, strict=True), key=lambda entry: (-entry[1], entry[0]))
        return {self.searcher.vocabulary[column]: float(weight) / unit for column, weight in entries}
