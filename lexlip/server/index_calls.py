"""The calls about the index itself."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from lexlip.server.bodies import HealthBody, StatusBody, Update, problems
from lexlip.server.request_body import Room, read_json
from lexlip.server.served_index import ServedIndex

MOST = 10_000  # bytes of a body
_POSTED = {
    "requestBody": {"content": {"application/json": {"schema": Update.model_json_schema()}}, "required": True}
}


def index_calls(served: ServedIndex) -> APIRouter:
    """Return the calls, to be included below /api."""
    calls = APIRouter(tags=["index"], responses=problems())
    room = Room(100 * MOST)

    @calls.get("/status", summary="The index, and its last update", responses={200: {"model": StatusBody}})
    async def status() -> JSONResponse:
        return JSONResponse(served.status())

    @calls.post(
        "/update",
        summary="Make the index match its photos again",
        status_code=202,
        responses={202: {"model": StatusBody}, **problems(408, 409, 413, 415)},
        openapi_extra=_POSTED,
    )
    async def update(request: Request) -> Response:
        asked = await read_json(request, Update, MOST, served.limits.seconds, room)
        served.start_update(asked.prune)
        return JSONResponse(served.status(), 202)

    @calls.get(
        "/health", summary="Whether a search would be answered", responses={200: {"model": HealthBody}}
    )
    async def health() -> JSONResponse:
        return JSONResponse({"status": "ok"})

    return calls
