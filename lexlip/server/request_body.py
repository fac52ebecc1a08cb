"""Reads what a request brings, within bounds of bytes and time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from lexlip.server.problems import Problem

if TYPE_CHECKING:
    from fastapi import Request

Body = TypeVar("Body", bound=BaseModel)


def kind_of_body(request: Request) -> str:
    """Return the media type that a request says its body has, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """Return the body of a request.

    Raises:
        Problem: 413, it is longer than `most` bytes; 408, it takes longer than `seconds`.
    """
    too_long = Problem(413, f"the body is too long: send at most {most:,} bytes")
    said = request.headers.get("content-length", "0")
    if not said.isdigit() or int(said) > most:
        raise too_long
    parts, length = [], 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                length += len(part)
                if length > most:
                    raise too_long
                parts.append(part)
    except TimeoutError:
        raise Problem(408, f"the body did not come within {seconds:g} seconds") from None
    return b"".join(parts)


async def read_json(request: Request, model: type[Body], most: int, seconds: float) -> Body:
    """Return the body of a request as a model; an empty one is the model's defaults.

    Raises:
        Problem: 415, it is not JSON; see `read_body`.
        RequestValidationError: it is not what the model says.
    """
    if kind_of_body(request) != "application/json":
        raise Problem(415, "send JSON, with Content-Type: application/json")
    data = await read_body(request, most, seconds)
    try:
        return model.model_validate_json(data or b"{}", strict=True)
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False)) from None
