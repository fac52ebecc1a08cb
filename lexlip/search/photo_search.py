"""Answers sentences, pictures and words with the photos of an index of any kind, and says what matched."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, Unpack

import numpy as np
from PIL import Image
from scipy.sparse import csr_matrix

from anserini_bridge import BridgeError, read_header
from lexlip.data import decode
from lexlip.errors import DataError, ModelError
from lexlip.queries.query_language import Query, parse_query
from lexlip.retrieval.answer import Answer, Hit
from lexlip.retrieval.collection import check_same_photos
from lexlip.retrieval.filters import Filters
from lexlip.retrieval.photo_table import Photo, PhotoTable, open_photos
from lexlip.search.hybrid import HybridStage
from lexlip.search.open_index import open_index
from lexlip.search.paging import Cursor, StaleCursor, digest
from lexlip.sparse.query_topk import SENTENCE_TOPK

if TYPE_CHECKING:
    from lexlip.models.contract import QueryEncoder
    from lexlip.retrieval.first_stage import FirstStage
    from lexlip.search.fusion import Hybrid
    from lexlip.search.rerank import Reranker

Sort = Literal["match", "date"]
"""The order of hits: best first, or newest first among those above the cut."""

DATED = 100  # hits that are sorted by date if the answer has no cut


class How(TypedDict, total=False):
    """What every search takes besides the query and k.

    Attributes:
        filters: conditions that photos must meet.
        min_score: the lowest score of a hit.
        cursor: `Answer.cursor` of the page before; the query and everything else must be the same.
        sort: the order of hits.
        suggest: number of words to suggest.
    """

    filters: Filters | None
    min_score: float | None
    cursor: str | None
    sort: Sort
    suggest: int


@dataclass(frozen=True)
class _Asked:
    """A query that is encoded.

    Attributes:
        text: as the answer shows it.
        key: what tells it from other queries.
        encoded: as the first stage takes it.
        without, unknown: see `Answer`.
        sentence: what a reranker reads, if there is a sentence.
        itself: a photo that is not to be found.
        ms: milliseconds that encoding it took.
    """

    text: str
    key: str
    encoded: Any
    without: Sequence[str] = ()
    unknown: Sequence[str] = ()
    sentence: str | None = None
    itself: str | None = None
    ms: float = 0.0


class _State:
    """One state of an index, with its table of photos; open as long as somebody uses it."""

    def __init__(self, stage: FirstStage) -> None:
        with ExitStack() as opened:
            self.stage = opened.enter_context(stage.hold())
            tables = [open_photos(index, metadata) for index, metadata in self.stage.indexes()]
            for table in tables:
                opened.enter_context(table)
            self.photos, *self._more = tables
            self._opened = opened.pop_all()
        self._users = 1
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """What cursors call it."""
        return digest(self.stage.state)

    def get(self, ids: Sequence[str]) -> list[Photo | None]:
        """Return photos; of two indexes the first may lack some."""
        found = self.photos.get(ids)
        for table in self._more:
            if None in found:
                found = [one or other for one, other in zip(found, table.get(ids), strict=True)]
        return found

    @contextmanager
    def used(self) -> Iterator[_State]:
        """Keep it open during a `with` block."""
        with self._lock:
            self._users += 1
        try:
            yield self
        finally:
            self.release()

    def release(self) -> None:
        """Close it if this was the last user."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
        self._opened.close()


class PhotoSearch:
    """An open index with what encodes queries for it: LexLIP's words, dense vectors, or captions in BM25.

    An index of words answers sentences without torch; the first picture that searches loads it. Several
    threads may search at the same time, also while one refreshes; each answer is of one state of the index.

    Args:
        index: the index's folder.
        model, query_encoder, query_topk: see `lexlip.search.open_index.open_index`.
        rerank: a second stage, which looks at the first photos again.
        also: the folder of a second index of the same photos, whose answers are fused with the first's.
        hybrid, hybrid_weight: how they are fused; see `lexlip.search.fusion.fuse_two`.
        device: see `lexlip.search.open_index.open_index`.
        keep_states: states before a refresh whose cursors still work.

    Raises:
        ModelError: the model does not exist, or did not make the index.
        DataError: the second index is of photos from another folder.
        BridgeError: there is no index, or it cannot be read (see anserini_bridge.errors).
    """

    def __init__(
        self,
        index: str | Path = ".lexlip",
        model: str | None = None,
        query_encoder: QueryEncoder = "network",
        query_topk: int | None = SENTENCE_TOPK,
        rerank: Reranker | None = None,
        also: str | Path | None = None,
        hybrid: Hybrid = "rrf",
        hybrid_weight: float = 0.5,
        device: str = "auto",
        keep_states: int = 0,
    ) -> None:
        if also is not None:
            first, second = read_header(index).extra, read_header(also).extra
            check_same_photos(first, second, Path(index), Path(also))
        stage: FirstStage = open_index(index, model, query_encoder, query_topk, device)
        if also is not None:
            try:
                stage = HybridStage(stage, open_index(also, device=device), hybrid, hybrid_weight)
            except BaseException:
                stage.close()
                raise
        self._open(stage, rerank, keep_states)

    @classmethod
    def of(cls, stage: FirstStage, rerank: Reranker | None = None) -> Self:
        """Return a search in an index that is open already, which is closed with it."""
        search = cls.__new__(cls)
        search._open(stage, rerank, 0)
        return search

    def _open(self, stage: FirstStage, rerank: Reranker | None, keep_states: int) -> None:
        self.stage, self.rerank = stage, rerank
        self._lock = threading.Lock()
        self._keep = keep_states
        try:
            self._states = deque([_State(stage)])  # newest first
        except BaseException:
            stage.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the index; searches that run in other threads still finish."""
        with self._lock:
            states, self._states = self._states, deque()
        for state in states:
            state.release()
        self.stage.close()

    def refresh(self) -> bool:
        """Move to the newest state of the index; return whether there was a newer one.

        Raises:
            BridgeError: the new state cannot be read; the old one stays open.
        """
        if not self.stage.refresh():
            return False
        newest = _State(self.stage)
        with self._lock:
            self._states.appendleft(newest)
            old = [self._states.pop() for _ in range(len(self._states) - 1 - self._keep)]
        for state in old:
            state.release()
        return True

    # ---- queries ----

    def text(self, query: str | Query, k: int = 10, **how: Unpack[How]) -> Answer:
        """Return the k photos that fit a sentence best.

        Args:
            query: see `lexlip.queries.query_language`.
            k: photos of a page.
            how: see `How`.

        Raises:
            QueryError: the query cannot be understood, or has marks and the index does not know words.
            DataError: the cursor is of another state of the index, or of another query.
        """
        with self._state(how.get("cursor")) as state:
            return self._answer(state, self._encode(state, query), k, how)

    def texts(self, queries: Sequence[str | Query], k: int = 10) -> list[Answer]:
        """Return the k photos that fit each of several sentences best.

        The sentences are searched together, on all cores; `Answer.ms` is each one's share. With a second
        stage, or words left out, they are searched one by one.
        """
        if not queries:
            return []
        with self._state() as state:
            asked = [self._encode(state, query) for query in queries]
            if self.rerank is not None or any(one.without for one in asked):
                return [self._answer(state, one, k, {}) for one in asked]
            started = time.perf_counter()
            ids, scores = state.stage.search([one.encoded for one in asked], k + 1)
            share = 1000 * (time.perf_counter() - started) / len(asked)
            return [
                self._page(state, one, hits, points, k, {}, share)
                for one, hits, points in zip(asked, ids, scores, strict=True)
            ]

    def image(self, picture: str | Path | Image.Image, k: int = 10, **how: Unpack[How]) -> Answer:
        """Return the k photos that are most similar to a picture.

        Args:
            picture: a file, or a picture in RGB.
            k, how: see `text`.

        Raises:
            DataError: the file cannot be read, or is not an image.
            ModelError: the index holds captions, or there is a second stage, which takes sentences only.
        """
        self._check_no_reranker()
        started = time.perf_counter()
        encoder = self.stage.encoder
        name = "picture" if isinstance(picture, Image.Image) else str(picture)
        photo = picture if isinstance(picture, Image.Image) else _read(picture, encoder.config.image.size)
        encoded: Any = encoder.encode_image([photo])
        return self.vector(encoded, k, name, 1000 * (time.perf_counter() - started), **how)

    def vector(
        self, encoded: csr_matrix, k: int = 10, name: str = "picture", ms: float = 0.0, **how: Unpack[How]
    ) -> Answer:
        """Return the k photos that are most similar to a vector that the index's model made, [1, V].

        Args:
            encoded: the vector.
            k, how: see `text`.
            name: what the answer calls it.
            ms: milliseconds that encoding it took.
        """
        self._check_no_reranker()
        key = digest(encoded.indices.tolist(), encoded.data.tolist())
        with self._state(how.get("cursor")) as state:
            return self._answer(state, _Asked(name, key, encoded, ms=ms), k, how)

    def similar(self, id: str, k: int = 10, **how: Unpack[How]) -> Answer:
        """Return the k photos that are most similar to one of the index, by what is stored of it.

        Args:
            id: of the photo, which is not among the hits.
            k, how: see `text`.

        Raises:
            UnknownId: the index does not hold the photo.
            ModelError: the index holds captions, or there is a second stage, which takes sentences only.
        """
        self._check_no_reranker()
        with self._state(how.get("cursor")) as state:
            started = time.perf_counter()
            encoded = state.stage.like(id)
            ms = 1000 * (time.perf_counter() - started)
            return self._answer(state, _Asked(id, f"like {id}", encoded, itself=id, ms=ms), k, how)

    def words(
        self, terms: Mapping[str, float], k: int = 10, without: Sequence[str] = (), **how: Unpack[How]
    ) -> Answer:
        """Return the k photos that fit some weighted words best.

        Args:
            terms: weights, greater than 0.
            k, how: see `text`.
            without: words that photos must not hold.

        Raises:
            DataError: a weight is not a positive number.
            QueryError: the index does not know words.
        """
        if wrong := [word for word, weight in terms.items() if not 0 < weight < float("inf")]:
            raise DataError(f"the weight of {wrong[0]!r} is {terms[wrong[0]]}: give a number above 0")
        heaviest = max(terms.values(), default=1.0)
        added = {word: weight / heaviest for word, weight in terms.items()}
        text = " ".join(f"+{word}^{weight:g}" for word, weight in terms.items())
        return self.text(Query(text, "", added=added, without=tuple(without)), k, **how)

    # ---- what an index knows ----

    @contextmanager
    def now(self) -> Iterator[tuple[FirstStage, PhotoTable]]:
        """Give one state of the index, the newest: its stage, and its table of photos."""
        with self._state() as state:
            yield state.stage, state.photos

    def photo_words(self, id: str) -> dict[str, float]:
        """Return the words of a photo with their weights, heaviest first, if the index has words.

        Raises:
            UnknownId: the index does not hold the photo.
        """
        with self._state() as state:
            return state.stage.weights(id)

    # ---- answering ----

    @contextmanager
    def _state(self, cursor: str | None = None) -> Iterator[_State]:
        """Give the newest state, or the one that a cursor names."""
        wanted = None if cursor is None else Cursor.read(cursor).state
        with ExitStack() as stack:
            with self._lock:
                found = next((one for one in self._states if wanted in (None, one.name)), None)
                if found is not None:
                    stack.enter_context(found.used())
            if found is None and wanted is None:
                raise BridgeError(f"the index {self.stage.index} was closed: open it again")
            if found is None:
                raise StaleCursor("the photos have changed since this page: search again")
            yield found

    def _encode(self, state: _State, query: str | Query) -> _Asked:
        asked = query if isinstance(query, Query) else parse_query(query)
        started = time.perf_counter()
        encoded = state.stage.encode(asked)
        ms = 1000 * (time.perf_counter() - started)
        unknown = state.stage.unknown(asked)
        return _Asked(asked.text, repr(asked), encoded, asked.without, unknown, asked.plain, ms=ms)

    def _check_no_reranker(self) -> None:
        if self.rerank is not None:
            raise ModelError("a cross-encoder compares sentences with photos: leave out --rerank")

    def _answer(self, state: _State, asked: _Asked, k: int, how: How) -> Answer:
        """Return a page of hits."""
        first = self._start(state, asked, how).first
        started = time.perf_counter()
        depth = max(first + k + 1, self.rerank.k if self.rerank else 0)
        ids, scores = self._found(state, asked, depth, how)
        return self._page(state, asked, ids, scores, k, how, 1000 * (time.perf_counter() - started))

    def _start(self, state: _State, asked: _Asked, how: How) -> Cursor:
        """Return where the page begins."""
        conditions = how.get("filters"), how.get("min_score"), how.get("sort", "match")
        beginning = Cursor(0, state.name, digest(asked.key, *conditions))
        given = how.get("cursor")
        cursor = beginning if given is None else Cursor.read(given)
        if cursor.asked != beginning.asked:
            raise StaleCursor("the cursor is of another query: search again without it")
        return cursor

    def _page(
        self,
        state: _State,
        asked: _Asked,
        ids: Sequence[str],
        scores: Sequence[float] | np.ndarray,
        k: int,
        how: How,
        ms: float,
    ) -> Answer:
        """Return a page of the hits that were found from the first on, in `ms`."""
        cursor = self._start(state, asked, how)
        first, end = cursor.first, cursor.first + k
        more = len(ids) > end
        before = 0  # a reranker sees all from the first on
        if self.rerank is None:
            ids, scores, before = ids[first:end], scores[first:end], first
        started = time.perf_counter()
        terms, hits = state.stage.terms(asked.encoded), self._hits(state, asked, ids, scores, before)
        times = {"encode": asked.ms, "search": ms + 1000 * (time.perf_counter() - started)}
        if self.rerank is not None:
            started = time.perf_counter()
            hits = self.rerank(asked.sentence or "", hits)[first:end]
            times["rerank"] = 1000 * (time.perf_counter() - started)
        wanted = how.get("suggest", 0)
        return Answer(
            query=asked.text,
            terms=terms,
            hits=hits,
            ms=times,
            unknown=list(asked.unknown),
            without=list(asked.without),
            cursor=str(replace(cursor, first=end)) if more else None,
            suggestions=state.stage.suggestions(asked.encoded, ids, wanted, asked.without) if wanted else [],
        )

    def _found(
        self, state: _State, asked: _Asked, number: int, how: How
    ) -> tuple[list[str], Sequence[float]]:
        """Return the ids and scores of the first hits, in the order that is wanted."""
        filters, lowest = how.get("filters"), how.get("min_score")
        among = state.photos.select(filters) if filters else None
        allowed = state.stage.allow(among, asked.without)
        by_date = how.get("sort", "match") == "date"
        depth = (max(DATED, number) if by_date else number) + (asked.itself is not None)
        (ids,), (scores,) = state.stage.search([asked.encoded], depth, allowed)
        pairs = [
            (id, float(score))
            for id, score in zip(ids, scores, strict=True)
            if id != asked.itself and (lowest is None or score >= lowest)
        ]
        if by_date:
            taken = state.photos.taken([id for id, _ in pairs])
            newest = sorted(range(len(pairs)), key=lambda rank: taken[rank] or "", reverse=True)
            pairs = [pairs[rank] for rank in newest]
        return [id for id, _ in pairs], [score for _, score in pairs]

    def _hits(
        self,
        state: _State,
        asked: _Asked,
        ids: Sequence[str],
        scores: Sequence[float] | np.ndarray,
        before: int,
    ) -> list[Hit]:
        """Return hits with what matched and where the photos are; so many are before them."""
        hits = []
        words = state.stage.matches(asked.encoded, ids)
        rows = zip(ids, scores, words, state.get(ids), strict=True)
        for rank, (id, score, shared, photo) in enumerate(rows, before + 1):
            if photo is None:
                hits.append(Hit(rank, id, id, float(score), shared))
            else:
                about = photo.width, photo.height, photo.taken
                hits.append(Hit(rank, id, photo.path, float(score), shared, None, *about))
        return hits


def _read(path: str | Path, size: int) -> Image.Image:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"cannot read the picture {path}: {error.strerror}") from error
    try:
        return decode(data, size)
    except DataError as error:
        raise DataError(f"cannot read the picture {path}: {error}") from error
