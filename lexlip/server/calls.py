"""The calls of the API: those that search, those about one photo, and those about the index."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from lexlip.server.bodies import (
    AlbumChange,
    AlbumsBody,
    AnswerBody,
    ByDate,
    Download,
    ExplainBody,
    FacetsBody,
    HealthBody,
    LanguageCode,
    ListingBody,
    MapBody,
    MapPart,
    Narrowed,
    Page,
    PhotoBody,
    PlacesBody,
    Room,
    Search,
    Sentence,
    StatusBody,
    TellingWordsBody,
    TimelineBody,
    TownsBody,
    TownsPart,
    Update,
    WordsBody,
    kind_of_body,
    problems,
    read_body,
    read_download,
    read_json,
)
from lexlip.server.downloads import FORMS, DownloadResponse
from lexlip.server.photo_files import Sent
from lexlip.server.problems import Problem
from lexlip.server.served_index import DOWNLOADS, Gate, ServedIndex

SMALL = 100  # a body of JSON may have so many times fewer bytes than a picture
UPLOADS = 4  # pictures at once, and as many that are on their way
KEY = 500  # bytes of a photo's key in a body, on average
UPDATE = 10_000  # bytes of a body that asks for an update
FOREVER = "private, max-age=31536000, immutable"
AN_HOUR = "private, max-age=3600"
A_WHILE = "private, max-age=60"

Key = Annotated[str, Path(description="The photo's key, from an answer.")]
Version = Annotated[str, Query(max_length=64, description="A hit's `version`: a browser may keep it.")]


def _reads(kinds: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Describe the body that a call reads by itself: a schema for each media type."""
    content = {kind: {"schema": schema} for kind, schema in kinds.items()}
    return {"requestBody": {"required": True, "content": content}}


def _sends(kind: str, what: str, again: bool = True) -> dict[int | str, dict[str, Any]]:
    """Describe the bytes that a call answers with, or, when asked `again`, that they are as before."""
    sent: dict[int | str, dict[str, Any]] = {200: {"content": {kind: {}}, "description": what}}
    return {**sent, 304: {"description": "As before"}} if again else sent


_ELSEWHERE: dict[int | str, dict[str, Any]] = {
    307: {"description": "Where it is shown: `lexlip serve --server … --photos ADDRESS`"}
}
_BYTES = {"type": "string", "format": "binary"}


def _answers(model: Any, *more: int) -> dict[int | str, dict[str, Any]]:
    """Describe the JSON that a call answers with, and the further problems that it may have."""
    return {200: {"model": model}, **(problems(*more) if more else {})}


def search_calls(served: ServedIndex) -> APIRouter:
    """Return the calls, to be included below /api."""
    calls = APIRouter(tags=["search"], responses=problems(410))
    limits = served.limits
    uploads, room = Gate("uploads", UPLOADS), Room(UPLOADS * limits.upload_bytes)

    @calls.get("/search", summary="Find photos by a sentence", responses=_answers(AnswerBody))
    async def search(asked: Annotated[Sentence, Query()]) -> Response:
        return await served.reply(served.by_sentence, asked.q, asked.adjust, asked)

    @calls.post(
        "/search",
        summary="Find photos by a sentence, by words, by a photo of the index, or by a picture",
        responses=_answers(AnswerBody, 408, 410, 413, 415, 504),
        openapi_extra=_reads({"application/json": Search.model_json_schema(), "image/*": _BYTES}),
    )
    async def post(request: Request, page: Annotated[Page, Query()]) -> Response:
        if kind_of_body(request).startswith("image/"):
            data = await read_body(request, limits.upload_bytes, limits.seconds, room)
            with uploads.enter():
                return await served.reply_slowly(served.by_picture, data, page)
        asked = await read_json(request, Search, limits.upload_bytes // SMALL, limits.seconds, room)
        if sum(given is not None for given in (asked.q, asked.terms, asked.like)) != 1:
            raise Problem(422, "give one of q, terms and like")
        if (asked.adjust and asked.q is None) or (asked.without and asked.terms is None):
            raise Problem(422, "adjust is for q, and without for terms: leave out what does not fit")
        if asked.terms is not None:
            return await served.reply(served.by_words, asked.terms, asked.without, asked)
        if asked.like is not None:
            return await served.reply(served.by_photo, asked.like, asked)
        return await served.reply(served.by_sentence, asked.q or "", asked.adjust, asked)

    @calls.get("/photos", summary="List photos by date", responses=_answers(ListingBody, 410))
    async def listed(asked: Annotated[ByDate, Query()]) -> Response:
        return await served.reply(served.listed, asked)

    @calls.get("/timeline", summary="The months that have photos", responses=_answers(TimelineBody))
    async def timeline(asked: Annotated[Narrowed, Query()]) -> Response:
        return await served.reply(served.timeline, asked)

    @calls.get("/map", summary="Where photos were taken, gathered by cells", responses=_answers(MapBody))
    async def on_map(asked: Annotated[MapPart, Query()]) -> Response:
        return await served.reply(served.on_map, asked)

    @calls.get("/towns", summary="The largest towns in a part of a map", responses=_answers(TownsBody))
    async def towns(asked: Annotated[TownsPart, Query()]) -> Response:
        return await served.reply(served.towns, asked)

    @calls.get("/explain/{key}", summary="The arithmetic of a photo's score", responses=_answers(ExplainBody))
    async def explain(
        key: Annotated[str, Path()],
        q: Annotated[str, Query(min_length=1, examples=["a dog in the snow"])],
        adjust: Annotated[list[str], Query()] = [],  # noqa: B006 (FastAPI copies it)
        language: LanguageCode = "",
    ) -> Response:
        return await served.reply(served.explain, key, q, adjust, language)

    @calls.get(
        "/words",
        summary="Words of the vocabulary: by their beginning, or by how near they are in spelling",
        responses=_answers(WordsBody),
    )
    async def words(
        prefix: Annotated[str, Query(max_length=100)] = "",
        near: Annotated[str, Query(max_length=100)] = "",
        limit: Annotated[int, Query(ge=1, le=1000)] = 20,
        language: LanguageCode = "",
    ) -> Response:
        return await served.reply(served.words, prefix, near, limit, language)

    @calls.get(
        "/telling",
        summary="Words that tell what this collection is of, each with a photo",
        responses=_answers(TellingWordsBody),
    )
    async def telling(limit: Annotated[int, Query(ge=1, le=100)] = 12) -> Response:
        return await served.reply(served.telling, limit)

    @calls.get("/facets", summary="What can be filtered by", responses=_answers(FacetsBody))
    async def facets() -> Response:
        return await served.reply(served.facets)

    return calls


def photo_calls(served: ServedIndex) -> APIRouter:
    """Return the calls, to be included below /api."""
    calls = APIRouter(prefix="/photos/{key}", tags=["photos"], responses=problems(410))

    @calls.get("", summary="What is known about a photo", responses=_answers(PhotoBody))
    async def photo(key: Key) -> Response:
        return await served.reply(served.photo, key)

    thumbnails = _sends("image/webp", "The thumbnail") | _ELSEWHERE

    @calls.get("/thumbnail", summary="A small copy", response_class=Response, responses=thumbnails)
    async def thumbnail(
        request: Request, key: Key, width: Annotated[Literal["320", "960"], Query()] = "320", v: Version = ""
    ) -> Response:
        sent = await served.seeing.run(served.thumbnail, key, int(width), _known(request))
        return _answer(sent, _kept(v, sent.version, FOREVER))

    files = _sends("image/*", "The file's bytes") | _ELSEWHERE

    @calls.get("/original", summary="The photo's file", response_class=Response, responses=files)
    async def original(request: Request, key: Key) -> Response:
        return _answer(await served.seeing.run(served.original, key, _known(request)), "private, no-cache")

    @calls.get("/places", summary="Where words are in a photo", responses=_answers(PlacesBody, 410, 504))
    async def places(
        key: Key, words: Annotated[str, Query(max_length=5000, description="Separated by commas.")] = ""
    ) -> Response:
        return await served.reply_slowly(served.places, key, words)

    @calls.get(
        "/heat",
        summary="Where a word is, to lay over the photo",
        response_class=Response,
        responses={
            **_sends("image/png", "The heat map, transparent where the word is not", again=False),
            **problems(410, 504),
        },
    )
    async def heat(
        key: Key, word: Annotated[str, Query(min_length=1, max_length=100)], v: Version = ""
    ) -> Response:
        version, data = await served.waiting.run(served.heat, key, word)
        kept = _kept(v, version, AN_HOUR)
        return Response(data, media_type="image/png", headers={"Cache-Control": kept})

    return calls


def selection_calls(served: ServedIndex) -> APIRouter:
    """Return the calls about several photos, to be included below /api."""
    calls = APIRouter(tags=["photos"], responses=problems(408, 410, 413, 415))
    limits = served.limits
    most = KEY * limits.download_photos
    room, downloads = Room(DOWNLOADS * most), Gate("downloads", DOWNLOADS)

    @calls.post(
        "/download",
        summary="The files of several photos as one zip, or small copies on a contact sheet",
        response_class=Response,
        responses={
            200: {
                "content": {kind: {} for _, kind in FORMS.values()},
                "description": "The files, as they are, or a page; and what is missing",
            }
        },
        openapi_extra=_reads({"application/json": Download.model_json_schema()}),
    )
    async def download(request: Request) -> Response:
        asked = await read_download(request, most, limits.seconds, room)
        parts = await served.seeing.run(served.download, asked)
        return DownloadResponse(asked.form, served.sent(parts), downloads.enter)

    @calls.get("/albums", summary="The albums of the index", responses=_answers(AlbumsBody))
    async def albums() -> Response:
        return await served.reply(served.albums)

    @calls.post(
        "/albums/{name}",
        summary="Add photos to an album, or take them out",
        responses=_answers(AlbumsBody),
        openapi_extra=_reads({"application/json": AlbumChange.model_json_schema()}),
    )
    async def change_album(
        request: Request, name: Annotated[str, Path(description="The album's name, such as starred.")]
    ) -> Response:
        asked = await read_json(request, AlbumChange, most, limits.seconds, room)
        return await served.reply(served.change_album, name, asked.add, asked.remove)

    return calls


def index_calls(served: ServedIndex) -> APIRouter:
    """Return the calls, to be included below /api."""
    calls = APIRouter(tags=["index"], responses=problems())
    room = Room(100 * UPDATE)

    @calls.get("/status", summary="The index, and its last update", responses=_answers(StatusBody))
    async def status() -> Response:
        return JSONResponse(served.status())

    @calls.post(
        "/update",
        summary="Make the index match its photos again",
        status_code=202,
        responses={202: {"model": StatusBody}, **problems(408, 409, 413, 415)},
        openapi_extra=_reads({"application/json": Update.model_json_schema()}),
    )
    async def update(request: Request) -> Response:
        asked = await read_json(request, Update, UPDATE, served.limits.seconds, room)
        served.start_update(asked.prune)
        return JSONResponse(served.status(), 202)

    @calls.get("/health", summary="Whether a search would be answered", responses=_answers(HealthBody))
    async def health() -> Response:
        return await served.health()

    return calls


def _known(request: Request) -> str:
    """Return what names the bytes that a browser has."""
    return request.headers.get("if-none-match", "")


def _kept(v: str, version: str, how: str) -> str:
    """Return how a browser may keep an answer about a version of a photo; not if it asked for another one."""
    return how if v and v == version else "private, no-store" if v else A_WHILE


def _answer(sent: Sent, kept: str) -> Response:
    if sent.address:
        return RedirectResponse(sent.address, 307, {"Cache-Control": A_WHILE})
    headers = {"ETag": f'"{sent.tag}"', "Cache-Control": kept}
    if sent.data is None:
        return Response(status_code=304, headers=headers)
    return Response(sent.data, media_type=sent.kind, headers={**headers, **sent.headers})
