"""The first stage of LexLIP: words of photos in an impact index of Lucene's, whole or in shards."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anserini_bridge import IndexHeader, IndexMetadata, IndexMismatch, open_searcher, read_metadata
from anserini_bridge.sparse_rows import Rows
from lexlip.machine.resources import cores
from lexlip.models.word_table import translated
from lexlip.queries.query_language import Query, nearest_words
from lexlip.retrieval.answer import Ends
from lexlip.retrieval.first_stage import FirstStage, Results, Scores
from lexlip.search.engines.lucene import LuceneEngine
from lexlip.search.stages.honest_end import DEPTH, HEAD, ends, load_calibration
from lexlip.search.stages.index_model import load_encoder, load_queries
from lexlip.sparse import SENTENCE_TOPK

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from lexlip.models.contract import QueryEncoder
    from lexlip.models.lexlip import LexLIP
    from lexlip.queries.photo_encoder import PhotoEncoder
    from lexlip.queries.text_queries import TextQueries
    from lexlip.retrieval.photo_table import PhotoTable
    from lexlip.search.engines.lucene import WordSearcher
    from lexlip.search.engines.shards import ShardedSearcher, Shards

SUGGESTING = 30  # hits of an answer that suggestions are taken from
FEWEST = 2  # of them that must hold a word
LETTERS = 6  # of a word of another language for each slip; `query_language.LETTERS` is of English ones
ENDING = 2  # letters in which forms of a word differ


class ImpactStage(FirstStage):
    """See `FirstStage`; a picture is encoded without torch where the model can do so.

    Args:
        index, model, query_encoder, query_topk, device: see `lexlip.search.stages.index_model.open_index`.
    """

    def __init__(
        self,
        index: Path,
        model: str | None = None,
        query_encoder: QueryEncoder = "network",
        query_topk: int | None = SENTENCE_TOPK,
        device: str = "auto",
    ) -> None:
        self.index, self.model, self.device, self.query_topk = index, model, device, query_topk
        self.query_encoder = query_encoder
        metadata = self._read_metadata()
        self.queries = self._load_queries(metadata)
        self.searcher = self._open(metadata)
        self.engine = LuceneEngine(self.searcher)
        self.calibration = load_calibration(self.queries.folder, self.engine.scheme)
        self.seen = 0 if self.calibration is None else DEPTH
        self._frequencies: tuple[str, NDArray[np.int64]] | None = None  # with the state that has them

    def _read_metadata(self) -> IndexHeader:
        return read_metadata(self.index)

    def _load_queries(self, metadata: Any) -> TextQueries:
        return load_queries(self.index, metadata, self.model, self.query_encoder)

    def _open(self, metadata: Any) -> WordSearcher:
        return open_searcher(self.index, self.queries.vocabulary.words)

    @property
    def metadata(self) -> IndexMetadata:
        return self.searcher.metadata

    @cached_property
    def encoder(self) -> LexLIP | PhotoEncoder:
        return load_encoder(self.index, self.metadata, self.model, self.device)

    @property
    def state(self) -> str:
        return self.searcher.state

    # ---- queries ----

    def read(self, query: Query) -> Query:
        return self.queries.read(query)

    def encode(self, query: str | Query) -> Rows:
        asked = Query(query, query) if isinstance(query, str) else query
        return Rows.of_vector(self.queries.vector(asked, self.query_topk))

    def like(self, id: str) -> Rows:
        stored = self.searcher.vectors([id])
        weights = (stored.data / self.engine.unit**0.5).astype(np.float32)
        return Rows(weights, stored.indices, stored.indptr, stored.shape)

    def unknown(self, query: str | Query) -> list[str]:
        return self.queries.unknown(query)

    def other_languages(self, query: Query) -> Sequence[str]:
        return self.queries.other_languages(query)

    def shown_in(self, query: Query) -> str:
        return self.queries.shown_in(query)

    def doubtful(self, query: Query) -> Sequence[str]:
        return self.queries.doubtful(query)

    def names(self, query: Query) -> Sequence[str]:
        return self.queries.names(query)

    def is_foreign_word(self, word: str, query: Query) -> bool:
        return self.queries.is_foreign_word(word, query)

    def is_not_english(self, query: Query, unknown: Sequence[str]) -> bool:
        return not self.queries.tells_languages and super().is_not_english(query, unknown)

    def lacks_languages(self) -> str:
        return self.queries.lacks_languages()

    def near(self, word: str, number: int, language: str = "") -> list[str]:
        counts = self.counts()
        return near_in(language, word, counts, number) if language else nearest_words(word, counts, number)

    def unread(self, query: str | Query) -> str:
        return self.queries.unread(query)

    # ---- answers ----

    def search(self, queries: Sequence[Rows | csr_matrix], k: int, allowed: Any = None) -> Results:
        impacts = self.engine.quantized(Rows.stacked(queries, len(self.searcher.vocabulary)))
        ids, scores = self.searcher.search(impacts, k, min(len(queries), cores()), allowed=allowed)
        return ids, [row / self.engine.unit for row in scores]

    def allow(self, ids: Sequence[str] | None, without: Sequence[str] = (), but: Collection[str] = ()) -> Any:
        columns = self._columns(without)
        if ids is None and not columns and not but:
            return None
        allowed = np.full(self.searcher.size, ids is None)
        if ids is not None:
            numbers = self.searcher.numbers(ids)
            allowed[numbers[numbers >= 0]] = True
        if columns:
            allowed &= ~self.searcher.holding(columns)
        if but:
            numbers = self.searcher.numbers(list(but))
            allowed[numbers[numbers >= 0]] = False
        return self.searcher.allow(allowed)

    def holding(self, words: Sequence[str]) -> frozenset[str]:
        held = self.searcher.holding(self._columns(words))
        if not held.any():
            return frozenset()
        ids = self.searcher.ids()
        return frozenset(np.array(ids, dtype=object)[held[self.searcher.numbers(ids)]])

    def ends(
        self,
        query: Query,
        encoded: Rows | csr_matrix,
        ids: Sequence[str],
        scores: Scores,
        allowed: Any = None,
    ) -> Ends:
        photos = len(self.searcher) if allowed is None else allowed.count
        words = self.matches(encoded, ids[:HEAD])
        known, unknown = self.queries.known_and_unknown(query)
        return ends(self.terms(encoded), scores[:DEPTH], words, known, unknown, photos, self.calibration)

    def terms(self, query: Rows | csr_matrix) -> dict[str, float]:
        return self._named(self.engine.quantized(query), self.engine.unit**0.5)[0]

    def matches(self, query: Rows | csr_matrix, ids: Sequence[str]) -> list[dict[str, float]]:
        return self._named(self.searcher.contributions(self.engine.quantized(query), ids), self.engine.unit)

    def weights(self, id: str) -> dict[str, float]:
        return self._named(self.searcher.vectors([id]), self.engine.unit**0.5)[0]

    def suggestions(
        self, query: Rows | csr_matrix, ids: Sequence[str], number: int, without: Sequence[str] = ()
    ) -> list[str]:
        known = {*self._columns(without), *query.indices.tolist()}
        hits = self.searcher.vectors(ids[:SUGGESTING])
        columns = suggest(hits, self.frequencies(), len(self.searcher), known, number)
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

    def _columns(self, words: Sequence[str]) -> list[int]:
        """Return the numbers of those words that the vocabulary has."""
        return [column for word in words if (column := self.queries.column(word)) is not None]

    def _named(self, rows: Rows | csr_matrix, unit: float) -> list[dict[str, float]]:
        """Return the entries of each row as {word: weight}, heaviest first."""
        row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        order = np.lexsort((rows.indices, -rows.data, row))
        vocabulary, columns = self.searcher.vocabulary, rows.indices[order].tolist()
        entries = [
            (vocabulary[column], weight)
            for column, weight in zip(columns, (rows.data[order] / unit).tolist(), strict=True)
        ]
        return [dict(entries[start:end]) for start, end in pairwise(rows.indptr.tolist())]

    # ---- states ----

    @contextmanager
    def hold(self) -> Iterator[ImpactStage]:
        with self.searcher.hold() as searcher:
            held = copy.copy(self)
            held.searcher, held.engine = searcher, LuceneEngine(searcher)
            yield held

    def refresh(self) -> bool:
        """See `FirstStage`; ModelError: another model made the newest state than the given one."""
        try:
            return self.searcher.refresh()
        except IndexMismatch:  # it was made by another model, which encodes queries from now on
            newest = self._open_again(self.model, self.query_encoder, self.query_topk, self.device)
        before, self.__dict__ = self.searcher, vars(newest)
        before.close()
        return True

    def _open_again(self, *how: Any) -> ImpactStage:
        return ImpactStage(self.index, *how)

    def close(self) -> None:
        self.searcher.close()


class ShardedStage(ImpactStage):
    """The first stage over shards, which are opened in this process or given, and are closed with it.

    `before` are those of another state of the index, which says where these are opened.
    """

    searcher: ShardedSearcher

    def __init__(
        self,
        index: Path,
        *how: Any,
        shards: Shards | None = None,
        before: Shards | None = None,
        **more: Any,
    ) -> None:
        self._shards, self._before = shards, before
        super().__init__(index, *how, **more)

    def _read_metadata(self) -> IndexMetadata:
        from lexlip.search.engines.shard import read_sharded

        return read_sharded(self.index)

    def _open(self, metadata: Any) -> ShardedSearcher:
        from lexlip.search.engines.shards import LocalShards, ShardedSearcher

        given = self._before.at(metadata) if self._before else self._shards
        shards = given or LocalShards(self.index, metadata)
        return ShardedSearcher(self.index, metadata, self.queries.vocabulary.words, shards)

    def _open_again(self, *how: Any) -> ShardedStage:
        return ShardedStage(self.index, *how, before=self.searcher.shards)

    def tables(self) -> list[PhotoTable]:
        from lexlip.search.engines.shards import ShardedPhotos

        return [ShardedPhotos(self.searcher)]


def near_in(language: str, word: str, counts: Mapping[str, int], number: int) -> list[str]:
    """Return words of a language that are spelled most like one, and are no forms of it.

    `counts` says in how many photos the English words are that are shown as these.
    """
    photos, written = Counter[str](), {}
    for english, own in translated(counts, language).items():
        photos[own.lower()] += counts[english]
        written[own.lower()] = own
    own = word.lower()
    forms = {own[:end] for end in range(max(1, len(own) - ENDING), len(own))}  # of which it has an ending
    near = nearest_words(word, photos, number + len(forms), LETTERS)
    return [written[other] for other in near if other not in forms][:number]


def suggest(
    hits: Rows | csr_matrix,
    frequencies: NDArray[np.int64],
    documents: int,
    known: Collection[int],
    number: int,
) -> list[int]:
    """Return the columns of words that hits share and other photos lack, the most telling first.

    A word counts by its mean weight in the hits, [n, V], times the logarithm of how rare it is, as in tf-idf.
    `frequencies`, [V], say in how many of the documents each word is; `known` columns are left out.
    """
    held = np.bincount(hits.indices, minlength=hits.shape[1])
    mean = np.bincount(hits.indices, hits.data, hits.shape[1]) / max(1, hits.shape[0])
    value = mean * np.log((1 + documents) / (1 + frequencies))
    value[held < min(FEWEST, hits.shape[0])] = 0
    value[list(known)] = 0
    best = np.argsort(-value, kind="stable")[:number]
    return [int(column) for column in best if value[column] > 0]
