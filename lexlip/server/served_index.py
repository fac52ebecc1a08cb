"""The open index, as the calls of the API ask it, in threads: the event loop never waits."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from fastapi import Response
from fastapi.responses import JSONResponse

from anserini_bridge import read_header
from lexlip.data import UnreadableImage
from lexlip.data.facts import digest
from lexlip.errors import DataError
from lexlip.machine.resources import cores
from lexlip.queries.query_language import Query, parse_query
from lexlip.registry import WITH_WORDS
from lexlip.retrieval.albums import without_broken
from lexlip.retrieval.answer import id_of, key_of
from lexlip.retrieval.collection import given_again
from lexlip.retrieval.filters import Filters
from lexlip.retrieval.gazetteer import place_at, towns_in
from lexlip.retrieval.photo import Photo
from lexlip.retrieval.seal import sealed_tables, why_not_sent
from lexlip.search.answering import How
from lexlip.search.photo_map import Box
from lexlip.search.photo_search import PhotoSearch
from lexlip.server.access import STATES, SUGGESTED, Limits
from lexlip.server.downloads import sheet_of, zip_photos
from lexlip.server.follower import LOOK, Follower, commit_of, is_ignored, watched_places
from lexlip.server.known_words import KnownWords
from lexlip.server.model_process import ModelProcess, make_tasks
from lexlip.server.photo_files import FOLDER, Sent, Thumbnails, file_kind, name_of, not_sent, read_photo
from lexlip.server.problems import Problem, busy
from lexlip.words.plain_text import readable

if TYPE_CHECKING:
    from lexlip.retrieval.answer import Answer
    from lexlip.retrieval.first_stage import FirstStage
    from lexlip.search.listing import Listing
    from lexlip.server.bodies import ByDate, Download, MapBox, MapPart, Narrowed, Page, Paged, TownsPart

LOADING = 300.0  # seconds that the process with the image model has to start
DOWNLOADS = 8  # that are sent at once
SMALL = 320  # pixels of the width of photos on a contact sheet
PLACED = 64  # words of a photo that are looked for in it

P = ParamSpec("P")
T = TypeVar("T")


class Gate:
    """Lets so many in at once, on the event loop, and names what they do to those that it refuses."""

    def __init__(self, what: str, most: int) -> None:
        self.what, self.most, self.inside = what, most, 0

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Hold one of the places."""
        if self.inside >= self.most:
            raise busy(self.what)
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1


class Threads:
    """A fixed number of threads; at most so many calls run or wait."""

    def __init__(self, what: str, number: int, most: int) -> None:
        self._pool = ThreadPoolExecutor(number, f"lexlip {what}")
        self._gate = Gate(what, most)

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in one of the threads; refuse it if too many wait."""
        with self._gate.enter():
            return await asyncio.wrap_future(self._pool.submit(function, *args, **kwargs))

    def close(self) -> None:
        """Leave out what has not begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class ServedIndex:
    """An index in a folder with the threads, the process and the thumbnails that answer for it.

    Args:
        index, model, device: see `PhotoSearch`, of which `search` may be one that is open.
        folders: whose photos are sent also if this user has not made the index, see `folders_to_send`.
    """

    every = LOOK  # seconds between looks for a newer state
    at_once = 2 * cores()  # searches

    def __init__(
        self,
        index: Path,
        model: str | None = None,
        device: str = "auto",
        limits: Limits | None = None,
        search: PhotoSearch | None = None,
        folders: Sequence[str] = (),
    ) -> None:
        limits = limits or Limits()
        search = search or PhotoSearch(index, model, device=device, keep_states=STATES)
        process = ModelProcess(
            make_tasks, (str(index.absolute()), model, device, limits.upload_pixels), limits.idle
        )
        self.index = index
        self._open(str(index), search, process, index / FOLDER, limits, folders)

    def _open(
        self,
        name: str,
        search: PhotoSearch,
        process: ModelProcess,
        thumbnails: Path,
        limits: Limits,
        folders: Sequence[str],
    ) -> None:
        self.name, self.limits, self.folders = name, limits, folders
        self.search, self.model = search, process
        self.thumbnails = Thumbnails(thumbnails, limits.thumbnail_bytes)
        self.known = KnownWords(search)
        self.follower = Follower(self._look, self._update, self._refresh, self.every)
        self._searching = Threads("searches", self.at_once, limits.requests)
        self.seeing = Threads("pictures", cores(), 4 * limits.requests)
        self.sending = Threads("downloads", 2, DOWNLOADS)
        self.waiting = Threads("the image model", 4, 16)
        self._updating = Threads("updates", 1, 2)

    def close(self) -> None:
        """End the process, and close the index."""
        self.model.close()
        for threads in (self._searching, self.seeing, self.sending, self.waiting, self._updating):
            threads.close()
        self.search.close()

    # ---- on the event loop ----

    async def reply(self, function: Callable[P, Any], *args: P.args, **kwargs: P.kwargs) -> Response:
        """Answer with the JSON of what a function returns, which runs in a thread."""
        return await self._searching.run(_json, partial(function, *args, **kwargs))

    async def reply_slowly(self, function: Callable[P, Any], *args: P.args, **kwargs: P.kwargs) -> Response:
        """Do the same for a function that needs the image model."""
        return await self.waiting.run(_json, partial(function, *args, **kwargs))

    def follow(self, watch: bool) -> None:
        """Begin to follow the index, and its photos too if these are watched."""
        self.follower.follow()
        if watch:
            places: list[Path] = []
            included: list[str] = []

            def look() -> list[Path]:
                extra = read_header(self.index).extra
                places[:] = watched_places(self.index, extra)
                included[:] = given_again(extra, self.index).include
                return places

            def ignored(path: Path) -> bool:
                return is_ignored(path, self.index.resolve(), places, hidden=bool(included))

            self.follower.watch(look, ignored)

    async def _look(self) -> object:
        return commit_of(self.index)

    async def _update(self, prune: bool, progress: Callable[[tuple[int, int]], None]) -> str:
        self._check_updatable()
        message: str = await self._updating.run(self.model.call, "update", prune, progress=progress)
        return message

    async def _refresh(self) -> None:
        await self._updating.run(self.search.refresh)

    def start_update(self, prune: bool) -> None:
        """Begin an update of the index, if it can be updated."""
        self._check_updatable()
        self.follower.start(prune)

    def _check_updatable(self) -> None:
        with self.search.now() as (stage, _):
            if stage.metadata.kind not in WITH_WORDS:
                made = f"the index was made with {stage.metadata.encoder}"
                raise Problem(409, f"{made}, and only an index of words can be updated: index again")
            if not sealed_tables(stage.metadata.extra):  # who made it has named what would be read
                how = f"lexlip index SOURCE --index {self.index}"
                raise Problem(409, f"this user has not made the index: update it by hand, with SOURCE: {how}")

    async def health(self) -> Response:
        """Answer once a search would be answered."""
        return JSONResponse({"status": "ok"})

    def status(self) -> dict[str, Any]:
        """Return what `StatusBody` has."""
        with self.search.now() as (stage, _):
            metadata, state = stage.metadata, stage.state
        return {
            "index": self.name,
            "documents": metadata.documents,
            "kind": metadata.kind,
            "model": metadata.encoder,
            "snapshot": hashlib.sha256(str(state).encode()).hexdigest()[:16],
            "words": metadata.kind in WITH_WORDS,
            "update": asdict(self.follower.status),
            "limits": asdict(self.limits),
            "photos": "files",
            "cluster": None,
        }

    # ---- searches, in threads ----

    def by_sentence(self, text: str, adjust: Sequence[str], page: Page) -> dict[str, Any]:
        """Return what a sentence finds."""
        query = self._query(text, adjust, page.language)
        return self._shown(self.search.text(query, page.k, **self._how(page)))

    def by_words(self, terms: dict[str, float], without: Sequence[str], page: Page) -> dict[str, Any]:
        """Return what weighted words find."""
        return self._shown(self.search.words(terms, page.k, without, **self._how(page)))

    def by_photo(self, key: str, page: Page) -> dict[str, Any]:
        """Return what is similar to a photo of the index."""
        return self._shown(self.search.similar(id_named(key), page.k, **self._how(page)))

    def by_picture(self, data: bytes, page: Page) -> dict[str, Any]:
        """Return what is similar to a picture."""
        with self.search.now() as (stage, _):
            if stage.metadata.kind == "bm25":
                _ = stage.encoder  # raises what a user can read
        how = self._how(page)  # refuses what is wrong before the model works
        try:
            encoded = self._ask_model("encode", data)
        except UnreadableImage as error:
            raise UnreadableImage(f"the picture cannot be read: {error.reason}") from error
        return self._shown(self.search.vector(encoded, page.k, **how))

    def _shown(self, found: Answer | Listing) -> dict[str, Any]:
        return found.to_dict()

    def explain(self, key: str, text: str, adjust: Sequence[str], language: str = "") -> dict[str, Any]:
        """Return the arithmetic of a photo's score."""
        from lexlip.explain.score_table import score_table

        query, id = self._query(text, adjust, language), self.search.photo(id_named(key)).id
        table = score_table(self.search, query, id).to_dict()
        return {name: table[name] for name in ("score", "rows", "translations")}

    def words(self, prefix: str, near: str, limit: int, language: str = "") -> dict[str, Any]:
        """Return words of the vocabulary."""
        return {"words": self.known.find(prefix, near, limit, language)}

    def telling(self, limit: int) -> dict[str, Any]:
        """Return words of the collection with a photo each."""
        return {"words": self.known.telling(limit)}

    def listed(self, asked: ByDate) -> dict[str, Any]:
        """Return photos by date."""
        self._check_k(asked)
        return self._shown(self.search.listed(asked.k, _filters(asked), asked.cursor, asked.sort))

    def timeline(self, asked: Narrowed) -> dict[str, Any]:
        """Return the months that have photos."""
        return self.search.timeline(_filters(asked)).to_dict()

    def on_map(self, asked: MapPart) -> dict[str, Any]:
        """Return where photos were taken, in a part of a map."""
        spots = self.search.spots(_box(asked), asked.columns, asked.rows, _filters(asked))
        return {"spots": [spot.to_dict() for spot in spots]}

    def towns(self, asked: TownsPart) -> dict[str, Any]:
        """Return the largest towns in a part of a map."""
        west, south, east, north = _box(asked)
        found = towns_in(south, north, west, east, asked.limit)
        names = "name", "latitude", "longitude"
        return {"towns": [{name: getattr(town, name) for name in names} for town in found]}

    def facets(self) -> dict[str, Any]:
        """Return what can be filtered by."""
        with self.search.now() as (_, photos):
            return photos.facets()

    def _query(self, text: str, adjust: Sequence[str], language: str = "") -> Query:
        length = len(text) + sum(map(len, adjust))
        if length > self.limits.query:
            raise Problem(422, f"the query has {length:,} characters: give at most {self.limits.query:,}")
        if not text.strip():
            raise Problem(422, "the query is empty: give a sentence")
        return parse_query(text, adjust, language=language.lower())

    def _how(self, page: Page) -> How:
        self._check_k(page)
        return {
            "filters": _filters(page) or None,
            "min_score": page.min_score,
            "cursor": page.cursor,
            "sort": page.sort,
            "group": page.group,
            "content_only": page.content_only,
            "suggest": 0 if page.cursor else SUGGESTED,
        }

    def _check_k(self, page: Paged) -> None:
        if page.k > self.limits.k:
            raise Problem(422, f"k is {page.k}: this server gives at most {self.limits.k} hits at a time")

    # ---- photos, in threads ----

    def photo(self, key: str) -> dict[str, Any]:
        """Return what is known about a photo."""
        photo = self.search.photo(id_named(key))
        about = {"key": key_of(photo.id), **photo.to_dict(), "version": photo.version}
        about["place"] = place_at(*photo.place) if photo.place else None
        about["text_places"] = [list(line.corners) for line in photo.text]
        albums = self.search.albums.holding(photo.id)
        return {**about, "words": self.search.photo_words(photo.id), "albums": albums}

    def thumbnail(self, key: str, width: int, known: str) -> Sent:
        """Return a photo as WebP of a width; `known` names what the browser has."""
        with self._named(key) as (photo, digest, read):
            tag = name_of(digest, width)
            if f'"{tag}"' in known:
                return Sent(photo.version, tag, None)
            return Sent(photo.version, tag, self.thumbnails.get(digest, width, read), "image/webp")

    def original(self, key: str, known: str) -> Sent:
        """Return a photo's file; `known` names what the browser has."""
        with self._named(key) as (photo, digest, read):
            tag = name_of(digest, 0)
            if f'"{tag}"' in known:
                return Sent(photo.version, tag, None)
            data = read()
            return Sent(photo.version, tag, data, *file_kind(photo.path, data))

    def download(self, asked: Download) -> Iterator[bytes]:
        """Return the parts of a file of photos, each of which is read when it is wanted."""
        ids, limits = list(dict.fromkeys(map(id_named, asked.keys))), self.limits
        if len(ids) > limits.download_photos:
            raise Problem(413, f"{len(ids):,} photos are wanted: at most {limits.download_photos:,} at once")
        with self.search.now() as (stage, photos):
            self._check_sendable(stage)
            if asked.form == "sheet":
                return sheet_of(asked.query, ids, self._small)
            size = sum(photo.size or 0 for photo in photos.get(ids) if photo is not None)
        if size > limits.download_bytes:
            most = limits.download_bytes / 1e6
            raise Problem(413, f"these photos have {size / 1e6:,.0f} MB: at most {most:,.0f} MB at once")
        return zip_photos(ids, self._file)

    def _check_sendable(self, stage: FirstStage) -> None:
        if why := why_not_sent(self.index, stage.metadata, self.folders):
            raise Problem(410, why)

    def _file(self, id: str) -> tuple[Photo, bytes]:
        with self.search.sending(id, self.folders) as (photo, read):
            return photo, read()

    def _small(self, id: str) -> tuple[Photo, bytes]:
        with self.search.sending(id, self.folders) as (photo, read):
            digest, read = _digested(photo, read)
            return photo, self.thumbnails.get(digest, SMALL, read)

    async def sent(self, parts: Iterator[bytes]) -> AsyncIterator[bytes]:
        """Yield parts that are made in threads, on the event loop."""
        while part := await self.sending.run(next, parts, b""):
            yield part

    # ---- albums, in threads ----

    def albums(self) -> dict[str, Any]:
        """Return the albums of the index, and whether they are changed here."""
        with self.search.now() as (stage, photos):
            listed = [
                {"name": name, "photos": sum(photo is not None for photo in photos.get(ids))}
                for name, ids in self.search.albums.all()
            ]
            return {"writable": self._may_change_albums(stage), "albums": listed}

    def change_album(self, name: str, add: Sequence[str], remove: Sequence[str]) -> dict[str, Any]:
        """Add photos to an album, and take others out; return all albums, and which photos none can hold."""
        new = list(map(id_named, add))
        with self.search.now() as (stage, photos):
            if not self._may_change_albums(stage):
                raise Problem(403, "this user has not made the index: its albums are not changed here")
            for id, photo in zip(new, photos.get(new), strict=True):
                if photo is None:
                    raise Problem(404, f"the index holds no photo with the id '{readable(id)}'")
        new, broken = without_broken(new)
        self.search.albums.change(name, new, map(id_named, remove))
        return self.albums() | ({"left_out": broken} if broken else {})

    def _may_change_albums(self, stage: FirstStage) -> bool:
        return bool(sealed_tables(stage.metadata.extra))

    # ---- the image model, in threads ----

    def places(self, key: str, words: str) -> dict[str, Any]:
        """Return where words are in a photo; by default its own."""
        self._check_words()
        with self._sending(key) as (photo, read):
            wanted = [word for word in words.split(",") if word] or list(self.search.photo_words(photo.id))
            data = read()
        found: dict[str, Any] = self._ask_model("places", data, wanted[:PLACED])
        return found

    def heat(self, key: str, word: str) -> tuple[str, bytes]:
        """Return a photo's version, and where a word is in it, as a PNG."""
        self._check_words()
        with self._sending(key) as (photo, read):
            data = read()
        png: bytes = self._ask_model("heat", data, word)
        return photo.version, png

    def _ask_model(self, task: str, *arguments: Any) -> Any:
        """Return what a task returns; the time that it may take begins when the model is loaded."""
        self.model.call("load", seconds=LOADING)
        return self.model.call(task, *arguments, seconds=self.limits.seconds)

    @contextmanager
    def _sending(self, key: str) -> Iterator[tuple[Photo, Callable[[], bytes]]]:
        """Give the photo that a key names, if the index holds it, and what reads its file."""
        with ExitStack() as stack:
            try:
                photo, read = stack.enter_context(self.search.sending(id_named(key), self.folders))
            except UnreadableImage as error:
                raise not_sent(error) from None
            yield photo, partial(read_photo, read)

    @contextmanager
    def _named(self, key: str) -> Iterator[tuple[Photo, str, Callable[[], bytes]]]:
        """Do the same, and give the file's digest; where the index does not know it, the file is read."""
        with self._sending(key) as (photo, read):
            yield photo, *_digested(photo, read)

    def _check_words(self) -> None:
        with self.search.now() as (stage, _):
            if stage.metadata.kind not in WITH_WORDS:
                raise Problem(
                    409, f"the index was made with {stage.metadata.encoder}, which does not know words"
                )


def _json(function: Callable[[], Any]) -> Response:
    data = json.dumps(function(), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(data.encode(), media_type="application/json")


def _digested(photo: Photo, read: Callable[[], bytes]) -> tuple[str, Callable[[], bytes]]:
    """Return the digest of a photo's file, and what reads it; it is read if the index does not know it."""
    if photo.digest:
        return photo.digest, read
    data = read()
    return digest(data), lambda: data


def _box(asked: MapBox) -> Box:
    if not (asked.west < asked.east and asked.south < asked.north):
        raise Problem(422, "a part of a map lies from west to east, and from south to north")
    return Box(asked.west, asked.south, asked.east, asked.north)


def _filters(asked: Narrowed) -> Filters:
    places = asked.near, asked.within
    return Filters(
        asked.after,
        asked.before,
        asked.folder,
        asked.caption,
        *places,
        asked.album,
        file_dates=asked.file_dates,
    )


def id_named(key: str) -> str:
    """Return the id that a key stands for; Problem: it is none."""
    try:
        return id_of(key)
    except DataError as error:
        raise Problem(404, str(error)) from None
