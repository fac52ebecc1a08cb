"""The application: every call of the API, its page and the page for people."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from lexlip.server.bodies import ProblemBody
from lexlip.server.calls import index_calls, photo_calls, search_calls
from lexlip.server.guard import Guard

if TYPE_CHECKING:
    from fastapi import Response
    from starlette.types import Receive, Scope, Send

    from lexlip.server.access import Access
    from lexlip.server.served_index import ServedIndex

PAGE = Path(__file__).parent / "page"
_ABOUT = "Searches photos by words. Errors are problem documents (RFC 9457)."


def make_application(served: ServedIndex, access: Access, watch: bool = False) -> FastAPI:
    """Return the application that serves an index; it closes the index when it ends.

    Args:
        served: the index.
        access: who may ask.
        watch: update the index when photos change.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        served.follow(watch)
        try:
            yield
        finally:
            await served.follower.close()
            served.close()

    app = FastAPI(
        title="LexLIP",
        version=version("lexlip"),
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
        separate_input_output_schemas=False,
    )
    app.add_middleware(Guard, access=access)
    for error in (HTTPException, RequestValidationError):
        app.add_exception_handler(error, _pass_on)
    for calls in (search_calls(served), photo_calls(served), index_calls(served)):
        app.include_router(calls, prefix="/api")
    _add_pages(app)
    _describe(app)
    return app


async def _pass_on(request: Request, error: Exception) -> Response:
    """Leave an error to the guard, which makes a problem document of it."""
    if isinstance(error, HTTPException) and error.status_code == 405:
        methods = _methods(request.app.openapi()["paths"], request.scope["path"])
        raise HTTPException(405, headers={"Allow": ", ".join(methods)} if methods else error.headers)
    raise error


def _methods(paths: Mapping[str, Mapping[str, Any]], path: str) -> list[str]:
    """Return the methods of all calls at an address, given the API's description."""
    for template, calls in paths.items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
            return sorted(method.upper() for method in calls)
    return []


def _describe(app: FastAPI) -> None:
    """Put problem documents into the API's description, and take out what FastAPI says instead of them."""
    plain = app.openapi

    def described() -> dict[str, object]:
        if app.openapi_schema is None:
            schemas = plain()["components"]["schemas"]
            schemas["ProblemBody"] = ProblemBody.model_json_schema()
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


class Files(StaticFiles):
    """Files that a browser asks for again each time: after an update of the program it has no old ones.

    They are small and are sent whole: a Range header is passed over, as HTTP allows, also a malformed one.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [header for header in scope["headers"] if header[0] != b"range"]
        await super().__call__({**scope, "headers": headers}, receive, send)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file."""
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        return response


def _add_pages(app: FastAPI) -> None:
    """Add the page at /, which is all that nothing else answers, and the API's page at /docs."""
    files = Files(directory=PAGE, html=True)

    async def docs(request: Request) -> Response:
        return await files.get_response("docs.html", request.scope)

    app.add_route("/docs", docs)
    app.router.default = files  # a mount at / would answer for wrong methods too
