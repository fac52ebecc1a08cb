"""Reads what a request brings, within bounds of bytes and time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from lexlip.server.problems import Problem, busy

if TYPE_CHECKING:
    from fastapi import Request

Body = TypeVar("Body", bound=BaseModel)

GIVEN_UP = 0.0  # the time at which the time of a body ended that was given up


def kind_of_body(request: Request) -> str:
    """Return the media type that a request says its body has, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


class Room:
    """Memory for bodies that are on their way: where it is full, the first of them is given up.

    So bodies that come slowly, or stop, keep no room from others.

    Args:
        most: bytes of all of them together; one body alone must be shorter.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: dict[asyncio.Timeout, int] = {}

    def add(self, end: asyncio.Timeout, length: int) -> None:
        """Count a part of a body, which is named by the time that it has."""
        self._held[end] = self._held.get(end, 0) + length
        while sum(self._held.values()) > self._most:
            first = next(iter(self._held))
            self.leave(first)
            first.reschedule(GIVEN_UP)

    def leave(self, end: asyncio.Timeout) -> None:
        """Forget a body."""
        self._held.pop(end, None)


async def read_body(request: Request, most: int, seconds: float, room: Room) -> bytes:
    """Return the body of a request.

    Raises:
        Problem: 413, it is longer than `most` bytes; 408, it takes longer than `seconds`; 503, given up.
        ClientDisconnect: the client has hung up.
    """
    too_long = Problem(413, f"the body is too long: send at most {most:,} bytes")
    said = request.headers.get("content-length", "0")
    if not said.isdigit() or int(said) > most:
        raise too_long
    body = bytearray()
    end = asyncio.timeout(seconds)
    try:
        async with end:
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise too_long
                room.add(end, len(part))
    except TimeoutError:
        if end.when() == GIVEN_UP:
            raise busy("bodies that come faster") from None
        raise Problem(408, f"the body did not come within {seconds:g} seconds") from None
    finally:
        room.leave(end)
    return bytes(body)


async def read_json(request: Request, model: type[Body], most: int, seconds: float, room: Room) -> Body:
    """Return the body of a request as a model; an empty one is the model's defaults.

    Raises:
        Problem: 415, it is not JSON; see `read_body`.
        RequestValidationError: it is not what the model says.
    """
    if kind_of_body(request) != "application/json":
        raise Problem(415, "send JSON, with Content-Type: application/json")
    data = await read_body(request, most, seconds, room)
    try:
        return model.model_validate_json(data or b"{}", strict=True)
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False)) from None
