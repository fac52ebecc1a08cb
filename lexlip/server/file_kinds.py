"""How a photo's file is sent: as a picture that a browser shows, or as a file to save."""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import quote

SHOWN = {
    b"\xff\xd8\xff": "image/jpeg",
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"BM": "image/bmp",
    b"II*\x00": "image/tiff",
    b"MM\x00*": "image/tiff",
}
"""Kinds by how files begin; none of them can run a script."""

_BRANDS = {
    b"avif": "image/avif",
    b"avis": "image/avif",
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"mif1": "image/heif",
}
_UNKNOWN = "application/octet-stream"


def file_kind(path: str, data: bytes) -> tuple[str, dict[str, str]]:
    """Return a file's media type, by its first bytes and never by its name, and further headers.

    What is no picture is sent as a file to save.
    """
    kind = _kind(data)
    name = quote(PurePosixPath(path).name, safe="", errors="replace")
    place = "inline" if kind != _UNKNOWN else "attachment"
    return kind, {"Content-Disposition": f"{place}; filename*=UTF-8''{name}"}


def _kind(data: bytes) -> str:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data[4:8] == b"ftyp":
        return _BRANDS.get(data[8:12], _UNKNOWN)
    return next((kind for begin, kind in SHOWN.items() if data.startswith(begin)), _UNKNOWN)
