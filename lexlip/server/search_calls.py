"""The calls that search, and those about words and filters."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from lexlip.server.bodies import (
    AnswerBody,
    ExplainBody,
    FacetsBody,
    Page,
    Search,
    Sentence,
    TellingWordsBody,
    WordsBody,
    problems,
)
from lexlip.server.problems import Problem
from lexlip.server.request_body import Room, kind_of_body, read_body, read_json
from lexlip.server.served_index import ServedIndex
from lexlip.server.threads import Gate

SMALL = 100  # a body of JSON may have so many times fewer bytes than a picture
UPLOADS = 4  # pictures at once, and as many that are on their way

_POSTED: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": Search.model_json_schema()},
            "image/*": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


def search_calls(served: ServedIndex) -> APIRouter:
    """Return the calls, to be included below /api."""
    calls = APIRouter(tags=["search"], responses=problems(410))
    limits = served.limits
    uploads, room = Gate("uploads", UPLOADS), Room(UPLOADS * limits.upload_bytes)

    @calls.get("/search", summary="Find photos by a sentence", responses={200: {"model": AnswerBody}})
    async def search(asked: Annotated[Sentence, Query()]) -> Response:
        return await served.reply(served.by_sentence, asked.q, asked.adjust, asked)

    @calls.post(
        "/search",
        summary="Find photos by a sentence, by words, by a photo of the index, or by a picture",
        responses={200: {"model": AnswerBody}, **problems(408, 410, 413, 415, 504)},
        openapi_extra=_POSTED,
    )
    async def post(request: Request, page: Annotated[Page, Query()]) -> Response:
        if kind_of_body(request).startswith("image/"):
            data = await read_body(request, limits.upload_bytes, limits.seconds, room)
            with uploads.enter():
                return await served.reply_slowly(served.by_picture, data, page)
        asked = await read_json(request, Search, limits.upload_bytes // SMALL, limits.seconds, room)
        if sum(given is not None for given in (asked.q, asked.terms, asked.like)) != 1:
            raise Problem(422, "give one of q, terms and like")
        if asked.terms is not None:
            return await served.reply(served.by_words, asked.terms, asked.without, asked)
        if asked.like is not None:
            return await served.reply(served.by_photo, asked.like, asked)
        return await served.reply(served.by_sentence, asked.q or "", asked.adjust, asked)

    @calls.get(
        "/explain/{key}", summary="The arithmetic of a photo's score", responses={200: {"model": ExplainBody}}
    )
    async def explain(
        key: Annotated[str, Path()],
        q: Annotated[str, Query(min_length=1, examples=["a dog in the snow"])],
        adjust: Annotated[list[str], Query()] = [],  # noqa: B006 (FastAPI copies it)
    ) -> Response:
        return await served.reply(served.explain, key, q, adjust)

    @calls.get(
        "/words",
        summary="Words of the vocabulary: by their beginning, or by how near they are in spelling",
        responses={200: {"model": WordsBody}},
    )
    async def words(
        prefix: Annotated[str, Query(max_length=100)] = "",
        near: Annotated[str, Query(max_length=100)] = "",
        limit: Annotated[int, Query(ge=1, le=1000)] = 20,
    ) -> Response:
        return await served.reply(served.words, prefix, near, limit)

    @calls.get(
        "/telling",
        summary="Words that tell what this collection is of, each with a photo",
        responses={200: {"model": TellingWordsBody}},
    )
    async def telling(limit: Annotated[int, Query(ge=1, le=100)] = 12) -> Response:
        return await served.reply(served.telling, limit)

    @calls.get("/facets", summary="What can be filtered by", responses={200: {"model": FacetsBody}})
    async def facets() -> Response:
        return await served.reply(served.facets)

    return calls
