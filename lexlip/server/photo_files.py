"""The files of photos: read, told apart, and sent as pictures that a browser shows or as files to save."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote

from lexlip.data import UnreadableImage
from lexlip.server.problems import Problem
from lexlip.words.plain_text import readable

SHOWN = {
    b"\xff\xd8\xff": "image/jpeg",
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"BM": "image/bmp",
    b"II*\x00": "image/tiff",
    b"MM\x00*": "image/tiff",
    b"\x00\x00\x00\x0cjP  ": "image/jp2",
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


class Sent(NamedTuple):
    """A picture of a photo as it is sent.

    Attributes:
        version: of the photo, see `Photo.version`.
        tag: what names these bytes.
        data: the bytes; None: the browser has them.
        kind: their media type.
        headers: further ones.
    """

    version: str
    tag: str
    data: bytes | None
    kind: str = ""
    headers: Mapping[str, str] = MappingProxyType({})


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


def read_photo(read: Callable[[], bytes]) -> bytes:
    """Return what a function reads of a photo's file.

    Raises:
        Problem: 410, it cannot be read any more, or must not be sent; the log says which.
    """
    try:
        return read()
    except UnreadableImage as error:
        raise not_sent(error) from None


def not_sent(error: UnreadableImage) -> Problem:
    """Return the problem of a photo that is not sent, and print a line about it."""
    print(readable(f"not sent: {error}"), file=sys.stderr, flush=True)
    return Problem(410, f"the photo cannot be sent any more: {error}")
