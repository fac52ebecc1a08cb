"""The application: every call of the API, and the page."""

from __future__ import annotations

import hashlib
import io
import mimetypes
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles

from lexlip.data import decode
from lexlip.errors import LexLIPError
from lexlip.server.photo_keys import id_of
from lexlip.server.served_index import ServedIndex

PAGE = Path(__file__).parent / "page"
CSP = (
    "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'"
)


def make_application(served: ServedIndex) -> FastAPI:
    """Return the application that serves an index."""
    app = FastAPI(title="LexLIP", docs_url=None, redoc_url=None, openapi_url="/api/openapi.json")

    @app.exception_handler(LexLIPError)
    async def for_the_user(request: Request, error: LexLIPError) -> JSONResponse:
        body = {"type": "about:blank", "title": "Bad Request", "status": 400, "detail": str(error)}
        return JSONResponse(body, 400, media_type="application/problem+json")

    @app.middleware("http")
    async def headers(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await call(request)
        response.headers["Content-Security-Policy"] = CSP
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        return response

    @app.get("/api/search")
    def search(q: str, k: int = 50) -> dict[str, Any]:
        return served.text(q, k)

    @app.get("/api/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/api/status")
    def status() -> dict[str, Any]:
        return served.status()

    @app.get("/api/photos/{key}")
    def photo(key: str) -> dict[str, Any]:
        return served.photo(id_of(key))

    @app.get("/api/photos/{key}/thumbnail")
    def thumbnail(key: str, width: int = 320) -> Response:
        picture = decode(served.read(id_of(key)), width)
        picture.thumbnail((width, width * 3))
        buffer = io.BytesIO()
        picture.save(buffer, "WEBP", quality=80)
        data = buffer.getvalue()
        tag = hashlib.sha256(data).hexdigest()[:32]
        caching = {"ETag": f'"{tag}"', "Cache-Control": "private, max-age=31536000, immutable"}
        return Response(data, media_type="image/webp", headers=caching)

    @app.get("/api/photos/{key}/original")
    def original(key: str) -> Response:
        id = id_of(key)
        kind = mimetypes.guess_type(id)[0] or "application/octet-stream"
        return Response(served.read(id), media_type=kind)

    app.mount("/", StaticFiles(directory=PAGE, html=True))
    return app
