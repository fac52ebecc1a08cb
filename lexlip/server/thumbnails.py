"""Thumbnails: made once, in WebP, and kept beside the index while there is room."""

from __future__ import annotations

import hashlib
import io
import os
import re
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from PIL import Image

from lexlip.data import UnreadableImage, decode
from lexlip.data.files import open_file

FOLDER = "thumbnails"  # in the index's folder
QUALITY = 80
TALLEST = 3  # times as high as wide; higher ones are made narrower


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
        """Return a thumbnail, and make it if there is none.

        Args:
            digest: of the photo's bytes.
            width: in pixels; smaller photos are not enlarged.
            read: returns the bytes that have this digest.

        Raises:
            UnreadableImage: the photo cannot be read.
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
            path.parent.mkdir(parents=True, exist_ok=True)
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
    """Return a photo as WebP, at most so many pixels wide, upright.

    Raises:
        UnreadableImage: it cannot be decoded.
    """
    photo = decode(data, width)
    photo.thumbnail((width, TALLEST * width), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    photo.save(buffer, "WEBP", quality=QUALITY)
    return buffer.getvalue()
