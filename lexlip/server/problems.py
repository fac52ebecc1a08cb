"""Problem documents (RFC 9457): every error of the API, with the sentence that the command line prints."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from anserini_bridge.errors import BadVectors, IndexLocked, UnknownId
from lexlip.data import UnreadableImage
from lexlip.errors import FixableError, LexLIPError
from lexlip.other_engines.ask import Denied, Later, ServerError
from lexlip.search.cursors import StaleCursor

if TYPE_CHECKING:
    from fastapi.responses import JSONResponse
    from starlette.exceptions import HTTPException

KIND = "application/problem+json"
_STATUS = {
    UnknownId: 404,
    StaleCursor: 410,
    UnreadableImage: 422,
    IndexLocked: 409,
    BadVectors: 400,
    Later: 503,
    ServerError: 502,
    Denied: 502,
    LexLIPError: 400,
    FixableError: 503,
}
"""Of errors that the caller can fix, or whoever runs the server: the first that fits."""


class Problem(Exception):
    """A request that is not answered, with the status of HTTP and one sentence for the user."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, dict(headers or {})

    def __reduce__(self) -> tuple[type[Problem], tuple[int, str, dict[str, str]]]:
        """Say how it is sent to another process."""
        return Problem, (self.status, self.detail, self.headers)

    @property
    def body(self) -> dict[str, Any]:
        """The document."""
        title = HTTPStatus(self.status).phrase
        return {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail}

    def response(self) -> JSONResponse:
        """Return the document as an answer."""
        from fastapi.responses import JSONResponse

        return JSONResponse(self.body, self.status, self.headers, media_type=KIND)


def busy(what: str) -> Problem:
    """Return the problem of too many requests at once."""
    return Problem(503, f"the server is busy with {what}: try again in a second", {"Retry-After": "1"})


def problem_of(error: Exception) -> Problem | None:
    """Return the problem that an error is for the caller; None if it is a fault of the program."""
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException

    if isinstance(error, Problem):
        return error
    if isinstance(error, RequestValidationError):
        return Problem(422, "; ".join(map(_sentence, error.errors()[:3])))
    if isinstance(error, HTTPException):
        return Problem(error.status_code, _http_sentence(error), error.headers)
    if isinstance(error, FixableError):
        return Problem(
            next(status for kind, status in _STATUS.items() if isinstance(error, kind)), str(error)
        )
    return None


def _sentence(error: Mapping[str, Any]) -> str:
    """Return what is wrong with one parameter."""
    place = ".".join(str(part) for part in error["loc"] if part not in ("query", "path", "body"))
    message = str(error["msg"]).replace(" after validation", "")  # of too many, or too few
    return f"{place or 'the body'}: {message[:1].lower()}{message[1:]}"


def _http_sentence(error: HTTPException) -> str:
    of_address = {404: "there is nothing at this address", 405: "this address has no such method"}
    what = of_address.get(error.status_code)
    where = "photos are searched at /, and /docs lists what programs may ask"
    return f"{what}: {where}" if what else str(error.detail)
