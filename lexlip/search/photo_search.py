"""Answers sentences, pictures and words with the photos of an index of any kind, and says what matched."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import isfinite
from numbers import Real
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, SupportsIndex, Unpack, get_args

from anserini_bridge import BridgeError, UnknownId, read_header
from lexlip.data.files import read_location, reading
from lexlip.errors import ConfigError, DataError, ModelError, UnreadableImage
from lexlip.queries.query_language import Query, QueryError, parse_query
from lexlip.retrieval.answer import Answer
from lexlip.retrieval.collection import check_same_photos, root_of
from lexlip.retrieval.filters import FROM_WHERE, Filters
from lexlip.retrieval.first_stage import Moved, Shared
from lexlip.retrieval.given_words import Phrase, phrases, split_words
from lexlip.retrieval.photo import Photo
from lexlip.retrieval.photo_table import PhotoTable
from lexlip.retrieval.seal import ELSEWHERE
from lexlip.search.answering import (
    Asked,
    FoundPhoto,
    How,
    IndexState,
    Sort,
    check_id,
    find,
    first_of_page,
    page_of,
    with_named,
)
from lexlip.search.cursors import Cursor, StaleCursor, digest
from lexlip.search.named_photos import folder_at, id_of_file, id_of_path, phrases_of_path, respelled
from lexlip.search.stages.index_model import open_index
from lexlip.sparse import SENTENCE_TOPK
from lexlip.words.function_words import FUNCTION_WORDS
from lexlip.words.plain_text import composed, folded, given_texts

if TYPE_CHECKING:
    from PIL import Image
    from scipy.sparse import csr_matrix

    from lexlip.models.contract import QueryEncoder
    from lexlip.retrieval.albums import Albums
    from lexlip.retrieval.first_stage import FirstStage
    from lexlip.search.hybrid import Hybrid
    from lexlip.search.listing import Listing, Order, Timeline
    from lexlip.search.photo_map import Box, Spot
    from lexlip.search.rerank import Reranker


MEANT = 3  # words that somebody may have meant by one that is unknown


class PhotoSearch:
    """An open index with what encodes queries for it: LexLIP's words, dense vectors, or captions in BM25.

    An index of words answers sentences without torch, and pictures too if its model has a graph for ONNX
    Runtime and there is no GPU. Several threads may search at the same time, also while one refreshes; each
    answer is of one state of the index.

    Args:
        index: the index's folder.
        model, query_encoder, query_topk: see `lexlip.search.stages.index_model.open_index`.
        rerank: looks at the first photos again.
        also: the folder of a second index of the same photos, whose answers are fused with the first's.
        captions: fuse with the captions and keywords that the index itself has.
        hybrid, hybrid_weight: how they are fused; see `lexlip.search.hybrid.fuse_two`.
        device: see `lexlip.search.stages.index_model.open_index`.
        keep_states: states before a refresh whose cursors still work.

    Raises:
        ModelError: the model does not exist, or did not make the index.
        MissingPackage: this kind of index needs a package that an extra brings.
        DataError: the second index is of photos from another folder.
        BridgeError: there is no index, or it cannot be read (see anserini_bridge.errors).
    """

    state_kind: ClassVar[type[IndexState]] = IndexState

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
        captions: bool = False,
    ) -> None:
        if also is not None and captions:
            raise ConfigError("two are fused, not three: leave out --also or --captions")
        if also is not None:
            first, second = read_header(index).extra, read_header(also).extra
            check_same_photos(first, second, Path(index), Path(also))
        stage: FirstStage = open_index(index, model, query_encoder, query_topk, device)
        if also is not None or captions:
            from lexlip.search.hybrid import HybridStage
            from lexlip.search.stages.bm25 import CaptionsStage

            try:
                other = open_index(also, device=device) if also else CaptionsStage(Path(index))
                stage = HybridStage(stage, other, hybrid, hybrid_weight)
            except BaseException:
                stage.close()
                raise
        self._open(stage, rerank, keep_states)

    @classmethod
    def of(cls, stage: FirstStage, rerank: Reranker | None = None, keep_states: int = 0) -> Self:
        """Return a search in an index that is open already, which is closed with it."""
        search = cls.__new__(cls)
        search._open(stage, rerank, keep_states)
        return search

    def _open(self, stage: FirstStage, rerank: Reranker | None, keep_states: int) -> None:
        self.stage, self.rerank = stage, rerank
        self._lock, self._refreshing = threading.Lock(), threading.Lock()
        self._keep = keep_states
        self._behind = False  # the stage is at a newer state, which could not be read
        try:
            self._states = deque([self._newest()])  # newest first
        except BaseException:
            stage.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("an open index stays in its process: open it again in the other, with PhotoSearch")

    def close(self) -> None:
        """Close the index; searches that run in other threads still finish."""
        with self._lock:
            states, self._states = self._states, deque()
        for state in states:
            state.release()
        self.stage.close()

    def refresh(self) -> bool:
        """Move to the newest state of the index; return whether there was a newer one.

        If it cannot be read, BridgeError is raised, or ModelError if another model made it than the one that
        was named, and the old one stays open.
        """
        with self._refreshing:
            self._behind = self.stage.refresh() or self._behind
            if not self._behind:
                return False
            newest = self._newest()
            self._behind = False
            with self._lock:
                self._states.appendleft(newest)
                old = [self._states.pop() for _ in range(len(self._states) - 1 - self._keep)]
        for state in old:
            state.release()
        return True

    def _newest(self) -> Shared[IndexState]:
        """Return the newest state of the index; writers may be at work."""
        while True:
            try:
                return Shared(self.state_kind(self.stage))
            except Moved:
                self.stage.refresh()

    # ---- queries ----

    def text(self, query: str | Query, k: int = 10, **how: Unpack[How]) -> Answer:
        """Return the k photos that fit a sentence best.

        Args:
            query: see `lexlip.queries.query_language`. One that only leaves words out finds nothing.
            k: photos of a page.
            how: see `How`.

        Raises:
            QueryError: the query is empty or cannot be understood, or has marks and the index does not know
                words.
            DataError: k is less than 1, or the cursor is of another state of the index, or of another query.
        """
        with self._state(how.get("cursor")) as state:
            asked = self._encode(state, query, bool(how.get("content_only")))
            return self._answer(state, asked, k, how)

    def texts(self, queries: str | Sequence[str | Query], k: int = 10) -> list[Answer]:
        """Return the k photos that fit each of several sentences best.

        The sentences are searched together, on all cores; `Answer.ms` is each one's share. If they are
        reranked, leave words out or name fields, they are searched one by one.

        Raises:
            QueryError, DataError: see `text`.
        """
        _check_number(k)
        queries = [queries] if isinstance(queries, str | Query) else list(queries)
        if not queries:
            return []
        with self._state() as state:
            asked = [self._encode(state, query) for query in queries]
            alone = (one.without or one.narrowed or one.near or one.folders for one in asked)
            if self.rerank is not None or any(alone):
                return [self._answer(state, one, k, {}) for one in asked]
            started = time.perf_counter()
            depth = max(k + 1, state.stage.seen)
            ids, scores = state.stage.search([one.encoded for one in asked], depth)
            share = 1000 * (time.perf_counter() - started) / len(asked)
            answers = []
            for one, hits, points in zip(asked, ids, scores, strict=True):
                assert one.query is not None
                ends = state.stage.ends(one.query, one.encoded, hits, points)
                found = [FoundPhoto(id, float(score)) for id, score in zip(hits, points, strict=True)]
                found = with_named(found, state.named(one, None, found[:1], ends), depth)
                answers.append(page_of(state, one, found, k, {}, share, ends))
            return answers

    def image(self, picture: str | Path | Image.Image, k: int = 10, **how: Unpack[How]) -> Answer:
        """Return the k photos that are most similar to a picture.

        Args:
            picture: a file, or a picture of PIL; both are shown upright and on white.
            k, how: see `text`.

        Raises:
            DataError: the file cannot be read, or is not an image; or k is less than 1.
            ModelError: the index holds captions, or is fused with another one; or there is a reranker.
        """
        from PIL import Image

        from lexlip.data import decode

        self._check_no_reranker()
        started = time.perf_counter()
        if not isinstance(picture, str | Path | Image.Image):
            raise DataError(
                f"a picture is a file or a picture of PIL, and not {type(picture).__name__}: open bytes with"
                " PIL's Image.open(io.BytesIO(…)), and arrays with Image.fromarray"
            )
        name = "picture" if isinstance(picture, Image.Image) else str(picture)
        with reading(name):  # before the model is loaded
            file = picture if isinstance(picture, Image.Image) else read_location(name)
        encoder = self.stage.encoder
        with reading(name):
            photo = decode(file, encoder.config.image.size) if isinstance(file, bytes) else file
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
            return self._answer(state, Asked(name, key, state.stage.of_vector(encoded), ms=ms), k, how)

    def similar(self, id: str | Path, k: int = 10, **how: Unpack[How]) -> Answer:
        """Return the k photos that are most similar to one of the index, by what is stored of it.

        Args:
            id: of the photo, which is not among the hits; or the path of its file.
            k, how: see `text`.

        Raises:
            NoSuchPhoto: the index does not hold the photo.
            ModelError: the index holds captions, or a reranker takes sentences only.
        """
        id = str(id) if isinstance(id, Path) else id
        check_id(id)
        self._check_no_reranker()
        with self._state(how.get("cursor")) as state:
            started, id = time.perf_counter(), state.id_of(id)
            try:
                encoded = state.stage.like(id)
            except UnknownId:
                found = id_of_file(state.photos, id)
                if found is None:
                    raise state.no_such_photo(id) from None
                id, encoded = found, state.stage.like(found)
            ms = 1000 * (time.perf_counter() - started)
            return self._answer(state, Asked(id, f"like {id}", encoded, itself=id, ms=ms), k, how)

    def words(
        self, terms: Mapping[str, float], k: int = 10, without: str | Sequence[str] = (), **how: Unpack[How]
    ) -> Answer:
        """Return the k photos that fit some weighted words best.

        Args:
            terms: weights, greater than 0, of at least one word. Only what photos show counts.
            k, how: see `text`.
            without: words that photos must not hold.

        Raises:
            DataError: a weight is not a positive number.
        """
        if not isinstance(terms, Mapping):
            raise DataError(f"words are {terms!r}: give them with their weights, as in {{'dog': 1.0}}")
        left_out = given_texts(without)
        for word, weight in zip(given_texts(terms), terms.values(), strict=True):
            try:
                positive = isinstance(weight, Real) and weight > 0 and isfinite(weight)
            except OverflowError:  # of an int
                positive = False
            if not positive:
                raise DataError(f"the weight of {word!r} is {weight!r}: give a number above 0")
        heaviest = max(terms.values(), default=1.0)
        added = {word: weight / heaviest for word, weight in terms.items()}
        text = " ".join(f"+{word}^{weight:g}" for word, weight in terms.items())
        how["content_only"] = True
        return self.text(Query(text, "", added=added, without=tuple(left_out)), k, **how)

    # ---- without a query ----

    def listed(
        self,
        k: int = 50,
        filters: Filters | None = None,
        cursor: str | None = None,
        order: Order = "newest",
    ) -> Listing:
        """Return a page of k photos by date; those of which nobody knows one come last.

        Args:
            k: photos of a page.
            filters: that they meet.
            cursor: `Listing.cursor` of the page before, or `Month.cursor`; all else must be the same.
            order: of the dates.

        Raises:
            DataError: k is less than 1; the cursor is of another state of the index, or of another listing;
                or the index is too old to list its photos.
        """
        from lexlip.search.listing import Order, page_by_date

        _check_number(k)
        if order not in get_args(Order):
            raise DataError(f"order is {order!r}: give one of {', '.join(get_args(Order))}")
        with self._state(cursor) as state:
            return page_by_date(state, k, self._filled(filters) or None, cursor, order)

    def timeline(self, filters: Filters | None = None) -> Timeline:
        """Return the months of the photos that meet filters, newest first; DataError: see `listed`."""
        from lexlip.search.listing import months_of

        with self._state() as state:
            return months_of(state, self._filled(filters) or None)

    def spots(self, box: Box, columns: int, rows: int, filters: Filters | None = None) -> list[Spot]:
        """Return where photos that meet filters were taken; see `lexlip.search.photo_map.gather`."""
        from lexlip.search.photo_map import gather

        with self._state() as state:
            return gather(state.located(self._filled(filters) or Filters()), box, columns, rows)

    def _filled(self, filters: Filters | None) -> Filters | None:
        """Return filters with the photos of their album; DataError: they are none."""
        if not isinstance(filters, Filters | None):
            raise DataError(f"filters are {filters!r}: give some, as in Filters(after='2014')")
        if filters is None or not filters.album:
            return filters
        return replace(filters, listed=tuple(self.albums.ids(filters.album)))

    # ---- what an index knows ----

    @property
    def albums(self) -> Albums:
        """The index's albums."""
        from lexlip.retrieval.albums import Albums

        return Albums(self.stage.index)

    @contextmanager
    def now(self) -> Iterator[tuple[FirstStage, PhotoTable]]:
        """Give one state of the index, the newest: its stage, and its table of photos."""
        with self._state() as state:
            yield state.stage, state.photos

    def photo(self, id: str) -> Photo:
        """Return what the index knows of a photo; DataError: it does not hold it, or is too old to tell."""
        check_id(id)
        with self._state() as state:
            return state.photo(state.id_of(id))

    def read(self, id: str) -> bytes:
        """Return the bytes of a photo's file as they are now; see `PhotoTable.read`."""
        check_id(id)
        with self._state() as state:
            return state.read(state.id_of(id))

    @contextmanager
    def sending(self, id: str, folders: Sequence[str] = ()) -> Iterator[tuple[Photo, Callable[[], bytes]]]:
        """Give a photo, and what reads its file to be sent to others, both of one state of the index.

        Args:
            id: of the photo.
            folders: see `lexlip.retrieval.seal.folders_to_send`.

        Raises:
            UnreadableImage: no photos of the index may be sent, as this user neither made it nor named a
                folder; or, when it is read, see `lexlip.retrieval.seal.read_as_indexed`.
            DataError: see `photo`.
        """
        check_id(id)
        with self._state() as state:
            photo = state.photo(state.id_of(id))
            if not folders and not state.sealed:
                raise UnreadableImage(ELSEWHERE, photo.path)
            yield photo, partial(state.photos.send, photo.id, folders, state.sealed)

    def photo_words(self, id: str) -> dict[str, float]:
        """Return the words of a photo with their weights, heaviest first; UnknownId: the index lacks it."""
        check_id(id)
        with self._state() as state:
            return state.stage.weights(state.id_of(id))

    # ---- answering ----

    @contextmanager
    def _state(self, cursor: str | None = None) -> Iterator[IndexState]:
        """Give the newest state, or the one that a cursor names."""
        wanted = None if cursor is None else Cursor.read(cursor).state
        with self._lock:
            found = next((one.take() for one in self._states if wanted in (None, one.value.name)), None)
        if found is None and wanted is None:
            raise BridgeError(f"the index {self.stage.index} was closed: open it again")
        if found is None:
            raise StaleCursor("the photos have changed since this page: search again")
        try:
            yield found.value
        finally:
            found.release()

    def _encode(self, state: IndexState, query: str | Query, content_only: bool = False) -> Asked:
        typed = query if isinstance(query, Query) else parse_query(query)
        asked = state.stage.read(typed)
        not_given = () if content_only else tuple(dict.fromkeys([*typed.minus, *asked.minus]))
        if isinstance(query, str) and not asked.text.strip():
            raise QueryError("the query is empty: give a sentence")
        started = time.perf_counter()
        encoded = state.stage.encode(asked)
        ms = 1000 * (time.perf_counter() - started)
        unknown, shown_in = state.stage.unknown(asked), state.stage.shown_in(asked)
        foreign = state.stage.is_not_english(asked, unknown)
        given = state.gave([word for word in unknown if word in not_given])
        unknown = [word for word in unknown if word not in given]
        wrong = [word for word in unknown if folded(word) not in FUNCTION_WORDS and not foreign]
        wrong = [word for word in wrong if not state.stage.is_foreign_word(word, asked)]
        near = {word: state.stage.near(word, MEANT, shown_in) for word in wrong}
        meant = {word: words for word, words in near.items() if words}
        for word in state.stage.doubtful(asked) if shown_in else ():
            if words := state.stage.near(word, MEANT, shown_in):
                unknown = list(dict.fromkeys([*unknown, word]))
                meant = {**meant, word: words}
        factors = [*typed.factors.items(), *asked.factors.items()]
        dropped = {part for word, factor in factors if not factor for part in split_words(word)}
        named: tuple[Phrase, ...] = ()
        path: str | None = None
        if state.stage.adds_names and self.rerank is None:
            path = id_of_path(state.photos, asked.text)
            named = phrases_of_path(state.photos, asked.text) if path is None else phrases(path)
            named = named or phrases(asked.sentence)
        named = tuple(phrase for phrase in named if not dropped.issuperset(phrase.words))
        strange = {
            folded(word)
            for word in (*unknown, *state.stage.doubtful(asked))
            if not state.stage.is_foreign_word(word, asked)
        }
        named = respelled(state.photos, named, strange)
        narrowed, folders = [], []
        root = root_of(state.stage.metadata.extra, state.stage.index)
        for name, value in asked.narrowed:
            at = folder_at(state.photos, value, root) if name == "folder" else None
            if at:
                folders.append(at)
            if name != "near" and at != "":
                wanted = " ".join(f'"{part}"' for part in at.split("/")) if at else value
                if parts := phrases(wanted):  # a folder's name may have no word
                    narrowed.append((name, respelled(state.photos, parts)))
        return Asked(
            asked.text,
            repr(asked),
            encoded,
            asked,
            unknown=unknown,
            unread=state.stage.unread(asked),
            meant=meant,
            foreign=foreign,
            phrases=named,
            path=path,
            not_given=not_given,
            narrowed=tuple(narrowed),
            folders=tuple(folders),
            near=asked.near,
            other_languages=tuple(state.stage.other_languages(asked)),
            install=state.stage.lacks_languages() if foreign else "",
            shown_in=shown_in,
            ms=ms,
        )

    def _check_no_reranker(self) -> None:
        if self.rerank is not None:
            raise ModelError("a cross-encoder compares sentences with photos: leave out --rerank")

    def _answer(self, state: IndexState, asked: Asked, k: int, how: How) -> Answer:
        _check_number(k)
        _check_how(how)
        filters = self._filled(how.get("filters")) or Filters()
        if asked.near is not None:
            filters = replace(filters, near=asked.near)
        if asked.folders:
            folders = [*asked.folders, *filter(None, [composed(filters.below)])]
            lowest = max(folders, key=len)
            apart = not all(f"{lowest}/".startswith(f"{one}/") for one in folders)
            filters = replace(filters, folder=lowest, listed=() if apart else filters.listed)
        if how.get("sort") == "place" and not filters.near:
            raise DataError(FROM_WHERE)
        how = {**how, "filters": filters or None}
        end = first_of_page(state, asked, how).first + k
        started = time.perf_counter()
        found, ends = find(state, asked, max(end + 1, self.rerank.k if self.rerank else 0), how)
        ms = 1000 * (time.perf_counter() - started)
        return page_of(state, asked, found, k, how, ms, ends, self.rerank)


def _check_number(k: int) -> None:
    """Raise DataError if a page of k photos cannot be."""
    if not isinstance(k, SupportsIndex) or index(k) < 1:
        raise DataError(f"k is {k!r}: give the number of photos that a page has, 1 or more")


def _check_how(how: How) -> None:
    """Raise DataError or TypeError if a program gives what no search takes."""
    if unknown := how.keys() - How.__annotations__.keys():
        raise TypeError(f"a search takes no {min(unknown)!r}: it takes {', '.join(How.__annotations__)}")
    suggest, lowest = how.get("suggest", 0), how.get("min_score")
    if suggest is not None and (not isinstance(suggest, SupportsIndex) or index(suggest) < 0):
        raise DataError(f"suggest is {suggest!r}: give the number of words to suggest, 0 or more")
    if lowest is not None and not (isinstance(lowest, Real) and isfinite(lowest)):
        raise DataError(f"min_score is {lowest!r}: give a number")
    if (sort := how.get("sort", "match")) not in get_args(Sort):
        raise DataError(f"sort is {sort!r}: give one of {', '.join(get_args(Sort))}")
