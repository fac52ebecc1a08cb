"""The files of several photos as one zip, which is made while it is sent."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from starlette.responses import StreamingResponse

from lexlip.errors import DataError, UnreadableImage
from lexlip.retrieval.photo_table import Photo
from lexlip.server.photo_files import not_sent
from lexlip.words.file_names import Names
from lexlip.words.plain_text import readable

if TYPE_CHECKING:
    from collections.abc import AsyncIterable
    from contextlib import AbstractContextManager

    from starlette.types import Receive, Scope, Send

MISSING = "missing.txt"  # the member that says which photos are not in the zip
_MODE = 0o644 << 16  # of a member, as Unix has it
_FIRST = (1980, 1, 1, 0, 0, 0)  # the first time that a zip can hold


class ZipResponse(StreamingResponse):
    """A zip to save, in parts, which is sent within a context: that may refuse it before it begins."""

    def __init__(
        self, parts: AsyncIterable[bytes], within: Callable[[], AbstractContextManager[None]]
    ) -> None:
        headers = {"Content-Disposition": 'attachment; filename="photos.zip"', "Cache-Control": "no-store"}
        super().__init__(parts, media_type="application/zip", headers=headers)
        self._within = within

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        with self._within():
            await super().__call__(scope, receive, send)


def zip_photos(ids: Iterable[str], read: Callable[[str], tuple[Photo, bytes]]) -> Iterator[bytes]:
    """Yield the parts of a zip that holds photos' files as they are, under their own names.

    Args:
        ids: of the photos, each once.
        read: returns a photo and the bytes of its file; if it raises DataError, the photo is left out, and
            named in `MISSING`.
    """
    names, missing = Names(MISSING), []
    written = _Written()
    with ZipFile(written, "w", ZIP_STORED) as archive:  # type: ignore[arg-type]
        for id in ids:
            try:
                photo, data = read(id)
            except DataError as error:
                if isinstance(error, UnreadableImage):
                    not_sent(error)
                reason = error.reason if isinstance(error, UnreadableImage) else "not in the index any more"
                missing.append(f"{readable(id)}: {reason}\n")
                continue
            archive.writestr(_member(names.take(photo.path), photo.taken), data)
            yield from written.take()
        if missing:
            text = f"Photos that could not be sent:\n\n{''.join(missing)}"
            archive.writestr(_member(MISSING), text)
    yield from written.take()


def _member(name: str, taken: str | None = None) -> ZipInfo:
    """Return what a zip says of a member; its time is that at which the photo was taken, if it is known."""
    try:
        when = time.strptime((taken or "")[:19], "%Y-%m-%dT%H:%M:%S")[:6]
    except ValueError:
        when = _FIRST
    member = ZipInfo(name, max(_FIRST, when) if when[0] <= 2107 else _FIRST)
    member.external_attr = _MODE
    return member


class _Written(io.RawIOBase):
    """A file that keeps what is written to it until it is taken."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._parts.append(data)
        return len(data)

    def take(self) -> list[bytes]:
        """Return the parts that were written since the last call."""
        parts, self._parts = self._parts, []
        return [part for part in parts if part]
