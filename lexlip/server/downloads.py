"""Several photos as one file, which is made while it is sent: a zip of their files, or a contact sheet."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from starlette.responses import StreamingResponse

from lexlip.errors import DataError, UnreadableImage
from lexlip.retrieval.photo import Photo
from lexlip.search.contact_sheet import sheet_parts
from lexlip.server.photo_files import not_sent
from lexlip.words.file_names import Names
from lexlip.words.plain_text import readable

if TYPE_CHECKING:
    from collections.abc import AsyncIterable
    from contextlib import AbstractContextManager

    from starlette.types import Receive, Scope, Send

MISSING = "missing.txt"  # the member that says which photos are not in the zip
FORMS = {"zip": ("photos.zip", "application/zip"), "sheet": ("photos.html", "text/html")}
"""What can be downloaded: how its file is called, and its media type."""

_MODE = 0o644 << 16  # of a member, as Unix has it
_FIRST = (1980, 1, 1, 0, 0, 0)  # the first time that a zip can hold
_LAST_YEAR = 2107  # and the last year


class DownloadResponse(StreamingResponse):
    """A file to save, in parts, which is sent within a context: that may refuse it before it begins."""

    def __init__(
        self, form: str, parts: AsyncIterable[bytes], within: Callable[[], AbstractContextManager[None]]
    ) -> None:
        name, kind = FORMS[form]
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
        super().__init__(parts, media_type=kind, headers=headers)
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
    names, missing = Names(MISSING), list[str]()
    written = _Written()
    with ZipFile(written, "w", ZIP_STORED) as archive:  # type: ignore[arg-type]
        for photo, data in _readable(ids, read, missing):
            archive.writestr(_member(names.take(photo.path), _when(photo)), data)
            yield from written.take()
        if missing:
            text = "Photos that could not be sent:\n\n" + "".join(f"{one}\n" for one in missing)
            archive.writestr(_member(MISSING), text)
    yield from written.take()


def sheet_of(query: str, ids: Iterable[str], read: Callable[[str], tuple[Photo, bytes]]) -> Iterator[bytes]:
    """Yield the parts of a contact sheet of photos.

    Args:
        query: what found them; "" is nothing.
        ids: see `zip_photos`.
        read: returns a photo and a small copy of it as WebP, else see `zip_photos`; who is left out is named
            at the end.
    """
    missing: list[str] = []
    for part in sheet_parts(query, _readable(ids, read, missing), missing):
        yield part.encode(errors="replace")


def _readable(
    ids: Iterable[str], read: Callable[[str], tuple[Photo, bytes]], missing: list[str]
) -> Iterator[tuple[Photo, bytes]]:
    """Yield what is read of photos; say in `missing` which cannot be read, and why."""
    for id in ids:
        try:
            found = read(id)
        except DataError as error:
            if isinstance(error, UnreadableImage):
                not_sent(error)
            reason = error.reason if isinstance(error, UnreadableImage) else "not in the index any more"
            missing.append(f"{readable(id)}: {reason}")
            continue
        yield found


def _when(photo: Photo) -> tuple[int, ...]:
    """Return the date of a photo, if it is known."""
    with suppress(ValueError):  # a stranger's index may say anything
        return datetime.fromisoformat(photo.dated.date or "").timetuple()[:6]
    return _FIRST


def _member(name: str, when: tuple[int, ...] = _FIRST) -> ZipInfo:
    """Return what a zip says of a member."""
    member = ZipInfo(name, when if _FIRST[0] <= when[0] <= _LAST_YEAR else _FIRST)  # type: ignore[arg-type]
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
