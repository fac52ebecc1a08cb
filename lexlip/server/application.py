"""The application: every call of the API, its page, the page for people, and the guard before them all."""

from __future__ import annotations

import asyncio
import re
import sys
import traceback
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse, Response

from lexlip.server.bodies import ProblemBody
from lexlip.server.calls import index_calls, photo_calls, search_calls, selection_calls
from lexlip.server.problems import Problem, problem_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from lexlip.server.access import Access
    from lexlip.server.served_index import ServedIndex

PAGE = Path(__file__).parent / "page"
_ABOUT = "Searches photos by words. Errors are problem documents (RFC 9457)."


def make_application(
    served: ServedIndex, access: Access, watch: bool = False, pictures_from: str = ""
) -> FastAPI:
    """Return the application that serves an index; it closes the index when it ends.

    The page shows pictures of one more origin, `pictures_from`.
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
    app.add_middleware(Guard, access=access, pictures_from=pictures_from)
    for error in (HTTPException, RequestValidationError):
        app.add_exception_handler(error, _pass_on)
    for calls in (search_calls(served), photo_calls(served), selection_calls(served), index_calls(served)):
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


HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with none a browser would not say from which page a form comes
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_POLICY = (
    "default-src 'self'; img-src {}; object-src 'none'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'"
)
_WHOLE_ADDRESS = re.compile(r"https?://(?P<host>[^/]*)(?P<path>/.*)?", re.IGNORECASE | re.DOTALL)
OPEN = "/api/health"  # needs no token: it says nothing about the photos


class Guard:
    """Middleware: lets in who may ask, adds the headers of safety, turns errors into problem documents."""

    def __init__(self, app: ASGIApp, access: Access, pictures_from: str = "") -> None:
        self.app, self.access = app, access
        pictures = f"'self' blob: data: {pictures_from}".strip()
        self.headers = {"Content-Security-Policy": _POLICY.format(pictures), **HEADERS}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope, begun = _in_origin_form(scope), False

        async def send_safely(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in self.headers.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            answer = self._meet(Request(scope))
            if answer is None:
                if scope["method"] == "HEAD":  # uvicorn, which knows its own scope, sends no body
                    scope = {**scope, "method": "GET"}
                await self.app(scope, receive, send_safely)
                return
        except ClientDisconnect:
            return  # nobody waits for an answer
        except asyncio.CancelledError:  # the server ends, and has waited for this request
            if begun:
                return
            answer = Problem(503, "the server ends, and has no answer yet: ask again once it runs").response()
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                _say(scope, error)
                problem = Problem(500, "the server made a mistake: its own messages say more")
            if begun:
                return  # the rest never comes, so the caller sees that it is cut off
            answer = problem.response()
        await answer(scope, receive, send_safely)

    def _meet(self, request: Request) -> Response | None:
        """Check who asks; return an answer only if the token has just been shown."""
        scope = request.scope
        access, path = self.access, scope["path"]
        access.check_rate(request.client.host if request.client else "")
        address = scope.get("server")
        access.check_host(request.headers.get("host", ""), address and address[0])
        if {"content-length", "transfer-encoding"}.issubset(request.headers):  # RFC 9112, 6.1
            raise Problem(400, "give Content-Length or Transfer-Encoding, not both", {"Connection": "close"})
        if path == OPEN:
            return None
        if path.startswith("/api"):
            access.check_origin(request.method, request.headers)
        shown = request.query_params.get("token") if path == "/" else None
        if shown is not None and access.is_token(shown):
            rest = urlencode(
                [pair for pair in parse_qsl(scope["query_string"].decode("latin-1")) if pair[0] != "token"]
            )
            answer = RedirectResponse(f"/?{rest}" if rest else "/", 303)
            answer.headers["Set-Cookie"] = access.cookie(scope["scheme"] == "https")
            answer.headers["Cache-Control"] = "no-store"
            return answer
        if not access.is_known(request.headers):
            how = "open /?token=… once, or send it as Authorization: Bearer"
            raise Problem(401, f"this server needs its token: {how}", {"WWW-Authenticate": "Bearer"})
        return None


def _in_origin_form(scope: Scope) -> Scope:
    """Return a request that names the server with its path as others are: RFC 9112, 3.2.2.

    So `GET http://localhost/docs` becomes `GET /docs`, in place of whose Host header that name counts.
    """
    found = _WHOLE_ADDRESS.fullmatch(scope["path"])
    if found is None:
        return scope
    others = [header for header in scope["headers"] if header[0] != b"host"]
    return {**scope, "path": found["path"] or "/", "headers": [(b"host", found["host"].encode()), *others]}


def _say(scope: Scope, error: Exception) -> None:
    """Print one line about a fault of the program."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{place.filename}:{place.lineno}"
    what = " ".join(f"{type(error).__name__}: {error}".split())
    print(f"fault in {scope['method']} {scope['path']!r}: {what} ({where})", file=sys.stderr, flush=True)
