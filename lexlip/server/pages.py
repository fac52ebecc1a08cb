"""What is not the API: the page, and the API's own page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fastapi.staticfiles import StaticFiles

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response
    from starlette.types import Receive, Scope, Send

PAGE = Path(__file__).parent / "page"


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


def add_pages(app: FastAPI) -> None:
    """Add the page at /, which is all that nothing else answers, and the API's page at /docs."""
    files = Files(directory=PAGE, html=True)

    async def docs(request: Request) -> Response:
        return await files.get_response("docs.html", request.scope)

    app.add_route("/docs", docs)
    app.router.default = files  # a mount at / would answer for wrong methods too
