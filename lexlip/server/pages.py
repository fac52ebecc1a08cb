"""What is not the API: the page, and the API's own page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fastapi.responses import HTMLResponse, Response
from fastapi.staticfiles import StaticFiles

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import Receive, Scope, Send

PAGE = Path(__file__).parent / "page"
ASSETS = Path(__file__).parent / "assets"

_DOCS = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>LexLIP: the API</title>
<link rel="icon" href="/docs/assets/favicon-32x32.png">
<link rel="stylesheet" href="/docs/assets/swagger-ui.css">
<div id="swagger-ui"></div>
<script src="/docs/assets/swagger-ui-bundle.js"></script>
<script src="/docs/assets/start.js"></script>
</html>
"""


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

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(_DOCS, headers={"Cache-Control": "no-cache"})

    app.mount("/docs/assets", Files(directory=ASSETS))
    app.router.default = Files(directory=PAGE, html=True)  # a mount at / would answer for wrong methods too
