"""Before every call: lets in who may ask, adds the headers of safety, turns errors into problems."""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response

from lexlip.server.access import Access
from lexlip.server.problems import Problem, problem_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob: data:; object-src 'none';"
    " base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
OPEN = "/api/health"  # needs no token: it says nothing about the photos


class Guard:
    """Middleware around the application."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = False

        async def send_safely(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            answer = self._meet(Request(scope))
            if answer is None:
                await self.app(scope, receive, send_safely)
                return
        except ClientDisconnect:
            return  # nobody waits for an answer
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
        """Check who asks; return an answer only if the token has just been shown.

        Raises:
            Problem: who asks may not.
        """
        scope = request.scope
        access, path = self.access, scope["path"]
        access.check_rate(request.client.host if request.client else "")
        address = scope.get("server")
        access.check_host(request.headers.get("host", ""), address and address[0])
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


def _say(scope: Scope, error: Exception) -> None:
    """Print one line about a fault of the program."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{place.filename}:{place.lineno}"
    what = " ".join(f"{type(error).__name__}: {error}".split())
    print(f"fault in {scope['method']} {scope['path']!r}: {what} ({where})", file=sys.stderr, flush=True)
