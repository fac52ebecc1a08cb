"""The first stage over an index on a server: it finds what `ImpactStage` finds, with the same scores."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anserini_bridge import IndexMetadata, IndexMismatch, UnknownId, check_same_vocabulary
from anserini_bridge.sparse_rows import Rows
from lexlip.queries.query_language import FIELDS, nearest_words
from lexlip.retrieval.filters import Filters
from lexlip.retrieval.given_table import GIVEN
from lexlip.retrieval.given_words import exactly
from lexlip.retrieval.photo_table import PhotoTable
from lexlip.search.stages.impact import FEWEST, SUGGESTING, ImpactStage, near_in, suggest
from lexlip.search_servers.photo_documents import MODIFIED, NEWEST, About
from lexlip.search_servers.photo_index import PhotoIndex
from lexlip.search_servers.photo_queries import (
    Condition,
    Holds,
    Scored,
    all_of,
    any_of,
    meets,
    was_given,
    with_ids,
)
from lexlip.search_servers.server_photos import ServerPhotos

_COUNTED = 500  # words of one question in how many photos they are: the server looks at each photo for each
_NEAR = 50  # words of the vocabulary that are spelled like one, before it is known which of them photos have


@dataclass(frozen=True)
class Allowed:
    """What photos must meet to be found."""

    condition: Condition
    index: PhotoIndex

    @cached_property
    def count(self) -> int:
        """The number of photos that meet it."""
        return self.index.count(self.condition)


class ServerSearcher:
    """Searches an index on a server as `anserini_bridge.ImpactSearcher` searches one in a folder.

    Raises:
        VocabularyMismatch: it was made with other words.
    """

    def __init__(self, index: PhotoIndex, about: About, vocabulary: Sequence[str]) -> None:
        check_same_vocabulary(Path(index.server.index), about.metadata, vocabulary)
        self.index, self._about, self.vocabulary = index, about, tuple(vocabulary)

    @property
    def metadata(self) -> IndexMetadata:
        """What the index says about itself."""
        return self._about.metadata

    @property
    def state(self) -> str:
        """A name of the state that the last run which changed a photo has left."""
        return self._about.version

    def __len__(self) -> int:
        return self.index.count()

    def search(
        self,
        queries: Rows,
        k: int = 10,
        threads: int = 1,
        alpha: float = 1.0,
        allowed: Allowed | None = None,
    ) -> tuple[list[list[str]], list[NDArray[np.int64]]]:
        """Return the ids and scores of the k best photos for each query, whole weights [n, V]."""

        def best(number: int) -> list[tuple[str, float]]:
            columns, weights = queries.row(number)
            pairs = zip(columns.tolist(), weights.tolist(), strict=True)
            query = [Scored(Holds(column), weight) for column, weight in pairs]
            return self.index.best(query, k, None if allowed is None else allowed.condition)

        if queries.shape[0] == 1:
            found = [best(0)]
        else:
            with ThreadPoolExecutor(threads) as pool:
                found = list(pool.map(best, range(queries.shape[0])))
        ids = [[id for id, _ in one] for one in found]
        return ids, [np.array([score for _, score in one], np.int64) for one in found]

    def frequencies(self) -> NDArray[np.int64]:
        """Return in how many photos each word is, [V]."""
        words = range(len(self.vocabulary))
        parts = (words[start : start + _COUNTED] for start in words[::_COUNTED])
        return np.array([count for part in parts for count in self.index.counts(list(map(Holds, part)))])

    def vectors(self, ids: Sequence[str]) -> Rows:
        """Return the whole weights of photos, [n, V]; UnknownId: the index does not hold one."""
        rows, missing = self.index.vectors(ids, len(self.vocabulary))
        if missing:
            raise UnknownId(f"the index {self.index} holds no document with the id {missing[0]!r}")
        return rows

    def contributions(self, query: Rows, ids: Sequence[str]) -> Rows:
        """Return what each word of a query, [1, V], adds to the score of each photo, [n, V]."""
        rows, _ = self.index.vectors(ids, len(self.vocabulary))
        weights = np.zeros(len(self.vocabulary), np.int64)
        weights[query.indices] = query.data
        added = rows.data * weights[rows.indices]
        held = np.flatnonzero(added)
        starts = np.searchsorted(held, rows.indptr).astype(np.int32)
        return Rows(added[held], rows.indices[held], starts, rows.shape)

    def refresh(self) -> bool:
        """Move to the newest state; return whether there is a newer one."""
        about = self.index.about()
        if about is None or (about.metadata.encoder, about.metadata.quantization) != (
            self.metadata.encoder,
            self.metadata.quantization,
        ):
            raise IndexMismatch(f"the index {self.index} was made in another way now: open it again")
        changed = about.version != self.state
        self._about = about
        return changed

    @contextmanager
    def hold(self) -> Iterator[Self]:
        """Give a copy that keeps the name of its state; the server answers as it is now."""
        yield copy.copy(self)

    def close(self) -> None:
        """Nothing is open between two requests."""


class ServerStage(ImpactStage):
    """See `ImpactStage`, whose further arguments `how` are.

    Args:
        server: the index.
        folders: in which its photos are, see `ServerPhotos`.

    Raises:
        ConfigError: the index holds other documents, such as an export.
    """

    searcher: ServerSearcher  # type: ignore[assignment]

    def __init__(self, server: PhotoIndex, *how: Any, folders: Sequence[str] = ()) -> None:
        self.server, self._folders = server, folders
        self._about = server.described()
        super().__init__(Path(server.server.index), *how)

    def _read_metadata(self) -> IndexMetadata:
        return self._about.metadata

    def _open(self, metadata: Any) -> Any:
        return ServerSearcher(self.server, self._about, self.queries.vocabulary.words)

    def _open_again(self, *how: Any) -> ServerStage:
        return ServerStage(self.server, *how, folders=self._folders)

    def tables(self) -> list[PhotoTable]:
        return [ServerPhotos(self.server, self._folders, self._by_file, self._given)]

    @property
    def _by_file(self) -> bool:
        return MODIFIED in self.metadata.extra

    @property
    def _given(self) -> Sequence[str]:
        return GIVEN if self.metadata.extra.get(MODIFIED) == NEWEST else FIELDS

    def meets(self, filters: Filters) -> list[Condition]:
        """Return the conditions of filters."""
        return meets(filters, self._by_file)

    def near(self, word: str, number: int, language: str = "") -> list[str]:
        if language:  # the server is not asked whether photos hold them
            return near_in(language, word, dict.fromkeys(self.searcher.vocabulary, 1), number)
        known = nearest_words(word, dict.fromkeys(self.searcher.vocabulary, 1), _NEAR)
        numbers = {one: number for number, one in enumerate(self.searcher.vocabulary)}
        counts = self.server.counts([Holds(numbers[one]) for one in known])
        held = {one: count for one, count in zip(known, counts, strict=True) if count}
        return nearest_words(word, held, number)

    def among(
        self, conditions: Iterable[Condition], without: Sequence[str] = (), not_given: Sequence[str] = ()
    ) -> Allowed:
        """Return, for `search`, the photos that meet conditions, without words held, or given to them."""
        gone = [was_given(phrase, self._given) for phrase in exactly(not_given)]
        return Allowed(all_of(conditions, [*self._holding(without), *gone]), self.server)

    def allow(
        self, ids: Sequence[str] | None, without: Sequence[str] = (), but: Collection[str] = ()
    ) -> Allowed | None:
        if ids is None and not without:
            return None
        return self.among([] if ids is None else [with_ids(ids)], without)

    def holding(self, words: Sequence[str]) -> frozenset[str]:
        held = self._holding(words)
        return frozenset(self.server.ids(any_of(held)) if held else ())

    def _holding(self, words: Sequence[str]) -> list[Condition]:
        return [Holds(column) for column in self._columns(words)]

    def suggestions(
        self, query: Any, ids: Sequence[str], number: int, without: Sequence[str] = ()
    ) -> list[str]:
        hits, _ = self.server.vectors(ids[:SUGGESTING], len(self.searcher.vocabulary))
        held = np.bincount(hits.indices, minlength=hits.shape[1])
        known = {*self._columns(without), *query.indices.tolist()}
        shared = np.flatnonzero(held >= min(FEWEST, max(1, hits.shape[0]))).tolist()
        asked = [column for column in shared if column not in known]
        frequencies = np.zeros(hits.shape[1], np.int64)
        frequencies[asked] = self.server.counts([Holds(column) for column in asked])
        others = set(range(hits.shape[1])).difference(asked)
        columns = suggest(hits, frequencies, len(self.searcher), others, number)
        return [self.searcher.vocabulary[column] for column in columns]
