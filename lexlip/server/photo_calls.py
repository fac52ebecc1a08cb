"""The calls about one photo of the index."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response

from lexlip.server.bodies import PhotoBody, PlacesBody, problems
from lexlip.server.photo_files import Sent
from lexlip.server.served_index import ServedIndex

Key = Annotated[str, Path(description="The photo's key, from an answer.")]

Version = Annotated[str, Query(max_length=64, description="A hit's `version`: a browser may keep it.")]

Responses = dict[int | str, dict[str, Any]]

FOREVER = "private, max-age=31536000, immutable"
AN_HOUR = "private, max-age=3600"
A_WHILE = "private, max-age=60"
_WEBP: Responses = {
    200: {"content": {"image/webp": {}}, "description": "The thumbnail"},
    304: {"description": "As before"},
}
_PNG: Responses = {
    200: {"content": {"image/png": {}}, "description": "The heat map, transparent where the word is not"}
}
_ANY: Responses = {
    200: {"content": {"image/*": {}}, "description": "The file's bytes"},
    304: {"description": "As before"},
}


def photo_calls(served: ServedIndex) -> APIRouter:
    """Return the calls, to be included below /api."""
    calls = APIRouter(prefix="/photos/{key}", tags=["photos"], responses=problems(410))

    @calls.get("", summary="What is known about a photo", responses={200: {"model": PhotoBody}})
    async def photo(key: Key) -> Response:
        return await served.reply(served.photo, key)

    @calls.get("/thumbnail", summary="A small copy", response_class=Response, responses=_WEBP)
    async def thumbnail(
        request: Request,
        key: Key,
        width: Annotated[Literal["320", "960"], Query()] = "320",
        v: Version = "",
    ) -> Response:
        sent = await served.run_picture(served.thumbnail, key, int(width), _known(request))
        return _answer(sent, _kept(v, sent.version, FOREVER))

    @calls.get("/original", summary="The photo's file", response_class=Response, responses=_ANY)
    async def original(request: Request, key: Key) -> Response:
        return _answer(await served.run_picture(served.original, key, _known(request)), "private, no-cache")

    @calls.get(
        "/places",
        summary="Where words are in a photo",
        responses={200: {"model": PlacesBody}, **problems(410, 504)},
    )
    async def places(
        key: Key, words: Annotated[str, Query(max_length=5000, description="Separated by commas.")] = ""
    ) -> Response:
        return await served.reply_slowly(served.places, key, words)

    @calls.get(
        "/heat",
        summary="Where a word is, to lay over the photo",
        response_class=Response,
        responses={**_PNG, **problems(410, 504)},
    )
    async def heat(
        key: Key,
        word: Annotated[str, Query(min_length=1, max_length=100)],
        v: Version = "",
    ) -> Response:
        version, data = await served.run_slowly(served.heat, key, word)
        return Response(
            data,
            media_type="image/png",
            headers={"Cache-Control": _kept(v, version, AN_HOUR)},
        )

    return calls


def _known(request: Request) -> str:
    """Return what names the bytes that a browser has."""
    return request.headers.get("if-none-match", "")


def _kept(v: str, version: str, how: str) -> str:
    """Return how a browser may keep an answer about a version of a photo; not if it asked for another one."""
    return how if v and v == version else "private, no-store" if v else A_WHILE


def _answer(sent: Sent, kept: str) -> Response:
    headers = {"ETag": f'"{sent.tag}"', "Cache-Control": kept}
    if sent.data is None:
        return Response(status_code=304, headers=headers)
    return Response(sent.data, media_type=sent.kind, headers={**headers, **sent.headers})
