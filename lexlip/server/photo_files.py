"""The files of photos: read, told apart, and sent as pictures that a browser shows or as files to save."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from urllib.parse import quote

from lexlip.data import UnreadableImage
from lexlip.retrieval.photo_table import Photo, PhotoTable
from lexlip.server.problems import Problem

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


def read_photo(photos: PhotoTable, id: str) -> bytes:
    """Return the bytes of a photo's file.

    Raises:
        Problem: 410, it cannot be read any more.
    """
    try:
        return photos.read(id)
    except UnreadableImage as error:
        raise Problem(410, f"the photo cannot be read any more: {error}") from None


def digest_of(photo: Photo) -> str:
    """Return the digest of a photo's bytes; what stands for it where the index does not know it."""
    if photo.digest:
        return photo.digest
    for place in (Path(photo.file), *Path(photo.file).parents):
        if place.is_file():
            status = place.stat()
            return f"{photo.path} {status.st_size} {status.st_mtime_ns} {status.st_ino}"
    return photo.path
