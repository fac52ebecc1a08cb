"""The first stage of LexLIP: words of photos in an impact index of Lucene's."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from anserini_bridge import AllowedDocuments, ImpactSearcher, IndexMetadata, read_metadata
from lexlip.machine.resources import cores
from lexlip.queries.query_language import Query
from lexlip.queries.spelling import nearest_words
from lexlip.queries.text_queries import TextQueries
from lexlip.retrieval.answer import Ends
from lexlip.retrieval.engine import Results, Scores
from lexlip.retrieval.first_stage import table_of
from lexlip.retrieval.photo_table import PhotoTable
from lexlip.search.engines.lucene import LuceneEngine
from lexlip.search.stages.honest_end import DEPTH, HEAD, ends, load_calibration
from lexlip.search.stages.index_model import load_encoder, load_queries
from lexlip.search.stages.suggestions import HITS, suggest
from lexlip.sparse.query_topk import SENTENCE_TOPK

if TYPE_CHECKING:
    from lexlip.models.contract import QueryEncoder
    from lexlip.models.lexlip import LexLIP
    from lexlip.queries.photo_encoder import PhotoEncoder


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
        queries = load_queries(index, read_metadata(index), model, query_encoder)
        searcher = ImpactSearcher(index, queries.vocabulary.words)
        self._start(index, model, device, queries, searcher, query_topk)

    def _start(
        self,
        index: Path,
        model: str | None,
        device: str,
        queries: TextQueries,
        searcher: ImpactSearcher,
        query_topk: int | None,
    ) -> None:
        self.index, self.model, self.device = index, model, device
        self.queries, self.searcher = queries, searcher
        self.engine, self.query_topk = LuceneEngine(searcher), query_topk
        self.calibration = load_calibration(self.queries.folder, self.engine.scheme)
        self._frequencies: tuple[str, NDArray[np.int64]] | None = None  # with the state that has them

    @property
    def metadata(self) -> IndexMetadata:
        return self.searcher.metadata

    @cached_property
    def encoder(self) -> LexLIP | PhotoEncoder:
        return load_encoder(self.index, self.metadata, self.model, self.device)

    def tables(self) -> list[PhotoTable]:
        return [table_of(self.index, self.metadata)]

    @property
    def state(self) -> str:
        return self.searcher.state

    def read(self, query: Query) -> Query:
        return self.queries.read(query)

    def encode(self, query: str | Query) -> csr_matrix:
        asked = Query(query, query) if isinstance(query, str) else query
        return self.queries.encode_query(asked, self.query_topk)

    def unknown(self, query: str | Query) -> list[str]:
        return self.queries.unknown(query)

    def near(self, word: str, number: int) -> list[str]:
        return nearest_words(word, self.counts(), number)

    def unread(self, query: str | Query) -> str:
        return self.queries.unread(query)

    def search(
        self, queries: Sequence[csr_matrix], k: int, allowed: AllowedDocuments | None = None
    ) -> Results:
        impacts = self.engine.quantized(vstack(queries, format="csr"))
        ids, scores = self.searcher.search(impacts, k, min(len(queries), cores()), allowed=allowed)
        return ids, [row / self.engine.unit for row in scores]

    def terms(self, query: csr_matrix) -> dict[str, float]:
        return self._named(self.engine.quantized(query), self.engine.unit**0.5)[0]

    def matches(self, query: csr_matrix, ids: Sequence[str]) -> list[dict[str, float]]:
        return self._named(self.searcher.contributions(self.engine.quantized(query), ids), self.engine.unit)

    def weights(self, id: str) -> dict[str, float]:
        return self._named(self.searcher.vectors([id]), self.engine.unit**0.5)[0]

    def suggestions(
        self, query: csr_matrix, ids: Sequence[str], number: int, without: Sequence[str] = ()
    ) -> list[str]:
        known = {column for word in without if (column := self.queries.column(word)) is not None}
        hits = self.searcher.vectors(ids[:HITS])
        columns = suggest(
            hits, self.frequencies(), len(self.searcher), known | set(query.indices.tolist()), number
        )
        return [self.searcher.vocabulary[column] for column in columns]

    def frequencies(self) -> NDArray[np.int64]:
        """Return in how many photos each word is, [V]."""
        if self._frequencies is None or self._frequencies[0] != self.state:
            self._frequencies = self.state, self.searcher.frequencies()
        return self._frequencies[1]

    def counts(self) -> dict[str, int]:
        """Return the words that photos hold, with the number of these."""
        numbers = self.frequencies()
        return {self.searcher.vocabulary[c]: int(numbers[c]) for c in np.flatnonzero(numbers)}

    @property
    def seen(self) -> int:
        return 0 if self.calibration is None else DEPTH

    def ends(
        self,
        query: Query,
        encoded: csr_matrix,
        ids: Sequence[str],
        scores: Scores,
        allowed: AllowedDocuments | None = None,
    ) -> Ends:
        photos = len(self.searcher) if allowed is None else allowed.count
        words = self.matches(encoded, ids[:HEAD])
        known, unknown = self.queries.known(query.plain), self.queries.unknown(query.plain)
        return ends(self.terms(encoded), scores[:DEPTH], words, known, unknown, photos, self.calibration)

    def allow(self, ids: Sequence[str] | None, without: Sequence[str] = ()) -> AllowedDocuments | None:
        columns = [column for word in without if (column := self.queries.column(word)) is not None]
        if ids is None and not columns:
            return None
        allowed = np.full(self.searcher.size, ids is None)
        if ids is not None:
            numbers = self.searcher.numbers(ids)
            allowed[numbers[numbers >= 0]] = True
        if columns:
            allowed &= ~self.searcher.holding(columns)
        return self.searcher.allow(allowed)

    def holding(self, words: Sequence[str]) -> frozenset[str]:
        columns = [column for word in words if (column := self.queries.column(word)) is not None]
        held = self.searcher.holding(columns)
        if not held.any():
            return frozenset()
        ids = self.searcher.ids()
        return frozenset(np.array(ids, dtype=object)[held[self.searcher.numbers(ids)]])

    def like(self, id: str) -> csr_matrix:
        return (self.searcher.vectors([id]) / self.engine.unit**0.5).astype(np.float32)

    def of_vector(self, vector: csr_matrix) -> csr_matrix:
        return vector

    @contextmanager
    def hold(self) -> Iterator[ImpactStage]:
        with self.searcher.hold() as searcher:
            held = copy.copy(self)
            held.searcher, held.engine = searcher, LuceneEngine(searcher)
            yield held

    def refresh(self) -> bool:
        return self.searcher.refresh()

    def close(self) -> None:
        self.searcher.close()

    def _named(self, rows: csr_matrix, unit: float) -> list[dict[str, float]]:
        """Return the entries of each row as {word: weight}, heaviest first."""
        row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        order = np.lexsort((rows.indices, -rows.data, row))
        vocabulary, columns = self.searcher.vocabulary, rows.indices[order].tolist()
        entries = [
            (vocabulary[column], weight)
            for column, weight in zip(columns, (rows.data[order] / unit).tolist(), strict=True)
        ]
        return [dict(entries[start:end]) for start, end in pairwise(rows.indptr.tolist())]
