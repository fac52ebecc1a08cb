"""The files of photos: sent as pictures that a browser shows, as thumbnails, or as files to save."""

from __future__ import annotations

import hashlib
import io
import os
import re
import sys
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote

from PIL import Image

from lexlip.data import UnreadableImage, decode
from lexlip.data.files import open_file
from lexlip.data.raw import is_raw
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

FOLDER = "thumbnails"  # in the index's folder
QUALITY = 80
TALLEST = 3  # times as high as wide; higher ones are made narrower


class Sent(NamedTuple):
    """A picture of a photo as it is sent."""

    version: str  # of the photo, see `Photo.version`
    tag: str  # names these bytes
    data: bytes | None  # None: the browser has them
    kind: str = ""  # their media type
    headers: Mapping[str, str] = MappingProxyType({})  # further ones
    address: str = ""  # where another server shows it, in place of all of these


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
    if is_raw(io.BytesIO(data)):  # many are TIFFs, of which a browser would show a tiny preview
        return _UNKNOWN
    return next((kind for begin, kind in SHOWN.items() if data.startswith(begin)), _UNKNOWN)


def read_photo(read: Callable[[], bytes]) -> bytes:
    """Return what a function reads of a photo's file, which may be gone, or must not be sent any more."""
    try:
        return read()
    except UnreadableImage as error:
        raise not_sent(error) from None


def not_sent(error: UnreadableImage) -> Problem:
    """Return the problem of a photo that is not sent, and print a line about it."""
    print(readable(f"not sent: {error}"), file=sys.stderr, flush=True)
    return Problem(410, f"the photo cannot be sent any more: {error}")


class Thumbnails:
    """The thumbnails of an index on disk; safe to use from several threads.

    ::

        DIR/thumbnails/ab/abcdef….webp      the name is a digest of the photo's bytes and the width

    Those that were not asked for the longest are removed first.

    Args:
        folder: where they are kept.
        most: bytes of all of them.
    """

    def __init__(self, folder: Path, most: int) -> None:
        self.folder, self.most = folder, most
        self._lock = threading.Lock()
        self._making: dict[str, threading.Lock] = {}
        self._sizes: OrderedDict[str, int] | None = None  # by name, used longest ago first
        self._total = 0

    def get(self, digest: str, width: int, read: Callable[[], bytes]) -> bytes:
        """Return a thumbnail, and make it if there is none; smaller photos are not enlarged.

        Args:
            digest: of the photo's bytes.
            width: in pixels.
            read: returns the bytes that have this digest.
        """
        name = name_of(digest, width)
        if (data := self._load(name)) is not None:
            return data
        with self._lock:
            making = self._making.setdefault(name, threading.Lock())
        with making:  # who asks for the same one meanwhile waits for it
            try:
                if (data := self._load(name)) is None:
                    data = make_thumbnail(read(), width)
                    self._keep(name, data)
            finally:
                with self._lock:
                    self._making.pop(name, None)
        return data

    def _load(self, name: str) -> bytes | None:
        try:
            with open_file(self._path(name), follow=False) as file:
                data = file.read()
            os.utime(self._path(name), follow_symlinks=False)  # so that the order of use outlives the server
        except (OSError, UnreadableImage):
            return None
        with self._lock:
            if self._sizes is not None and name in self._sizes:
                self._sizes.move_to_end(name)
        return data

    def _keep(self, name: str, data: bytes) -> None:
        """Write a thumbnail; where that is not possible it is made again next time."""
        path = self._path(name)
        with suppress(OSError):
            self.folder.mkdir(exist_ok=True)  # not what it is in: an index that is moved away stays away
            path.parent.mkdir(exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=name, suffix=".tmp")
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                Path(temporary).replace(path)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
            self._make_room(name, len(data))

    def _make_room(self, name: str, size: int) -> None:
        with self._lock:
            if self._sizes is None:
                self._sizes = self._list()
                self._total = sum(self._sizes.values())
            else:
                self._total += size - self._sizes.pop(name, 0)
                self._sizes[name] = size
            if self._total <= self.most:
                return
            while self._sizes and self._total > 0.9 * self.most:
                oldest, freed = self._sizes.popitem(last=False)
                self._path(oldest).unlink(missing_ok=True)
                self._total -= freed

    def _list(self) -> OrderedDict[str, int]:
        """Return what is on disk; half-written files of a killed server are removed."""
        found: list[tuple[float, str, int]] = []
        for path in filter(_is_ours, self.folder.glob("*/*")):
            with suppress(OSError):
                if path.suffix == ".tmp":
                    path.unlink()
                    continue
                status = path.stat()
                found.append((status.st_mtime, path.stem, status.st_size))
        return OrderedDict((name, size) for _, name, size in sorted(found))

    def _path(self, name: str) -> Path:
        return self.folder / name[:2] / f"{name}.webp"


def _is_ours(path: Path) -> bool:
    """Return whether a file is a thumbnail: the folder may be a link to one of other files."""
    return re.fullmatch(r"[0-9a-f]{40}(\.webp|.*\.tmp)", path.name) is not None


def name_of(digest: str, width: int) -> str:
    """Return the name of a thumbnail, which is its ETag too."""
    return hashlib.sha256(f"{digest} {width} {QUALITY}".encode()).hexdigest()[:40]


def make_thumbnail(data: bytes, width: int) -> bytes:
    """Return a photo as WebP, at most so many pixels wide, upright."""
    photo = decode(data, width)
    photo.thumbnail((width, TALLEST * width), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    photo.save(buffer, "WEBP", quality=QUALITY)
    return buffer.getvalue()
