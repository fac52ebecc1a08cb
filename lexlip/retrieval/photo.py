"""What an index knows of a photo, and what it was told."""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

from lexlip.data.files import modified
from lexlip.retrieval.given_words import Texts, texts_of
from lexlip.retrieval.text_lines import TextLine
from lexlip.words.file_names import date_in

DatedBy = Literal["camera", "file", "unknown"]
"""What says when a photo was taken: it itself, or only its file, by its name or time."""

_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", re.ASCII)


class Photo(NamedTuple):
    """A photo of an index.

    Attributes:
        id: in the index.
        path: where a person finds it, an absolute path; in a tar, TAR/MEMBER.
        file, offset, size: `size` bytes of this file, from `offset` on; offset None is the whole file.
        width, height: upright, in pixels; 0 is unknown.
        taken: when, by the camera's clock: "2019-07-01T12:30:00".
        camera: its maker and model.
        captions, keywords: of the source, in the file, and beside it.
        digest: of the file's bytes; "" is unknown.
        fingerprint: 64 bits, see `lexlip.data.facts`.
        text: lines of text in it, if somebody wanted them read.
        place: where it was taken, in degrees north and east (WGS 84); None is unknown.
        state: of its file when it was indexed, see `lexlip.data.Source.state`; "" is unknown.
    """

    id: str
    path: str
    file: str
    offset: int | None = None
    size: int | None = None
    width: int = 0
    height: int = 0
    taken: str | None = None
    camera: str | None = None
    captions: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    digest: str = ""
    fingerprint: int | None = None
    text: tuple[TextLine, ...] = ()
    place: tuple[float, float] | None = None
    state: str = ""

    @property
    def dated(self) -> Dated:
        """Its date, and what says so."""
        return dated(self.id, self.taken, self.offset, self.state)

    @property
    def version(self) -> str:
        """What changes with the file's bytes; "" is unknown."""
        return self.digest[:16]

    @property
    def given(self) -> Texts:
        """The words that come with it; see `lexlip.retrieval.given_words.texts_of`."""
        lines = (line.text for line in self.text)
        return texts_of(self.id, (*self.captions, *self.keywords), lines, self.taken or date_in(self.id))

    def to_dict(self) -> dict[str, Any]:
        """Return what people want to know of it, as plain values."""
        names = ("id", "path", "width", "height", "taken", "camera")
        lists = {"captions": list(self.captions), "keywords": list(self.keywords)}
        lists["text"] = [line.text for line in self.text]
        latitude, longitude = self.place or (None, None)
        place = {"latitude": latitude, "longitude": longitude}
        dates = {"date": self.dated.date, "dated": self.dated.by}
        return {**{name: getattr(self, name) for name in names}, **dates, **place, **lists}


class Dated(NamedTuple):
    """The date of a photo, "2019-07-01T12:30:00", or None; and whether only its file has one."""

    id: str
    date: str | None
    by_file: bool

    @property
    def by(self) -> DatedBy:
        """What says so."""
        return dated_by(self.date, self.by_file)


def dated_by(date: str | None, by_file: bool) -> DatedBy:
    """Return what says a date; of no date nothing does."""
    return "unknown" if not date else "file" if by_file else "camera"


def dated(id: str, taken: str | None, start: int | None, state: str) -> Dated:
    """Return a photo's date: when it was taken, or if it does not tell, that of its file; see `Photo`."""
    if taken is None and (date := file_date(id, start, state)):
        return Dated(id, date, True)
    return Dated(id, taken if taken and _DATE.fullmatch(taken) else None, False)


def file_date(id: str, start: int | None, state: str) -> str | None:
    """Return the date in the name of a photo's file, or else when it was modified: "2019-07-01T12:30:00".

    A tar, in which a photo has a `start`, tells no time of the photos in it.
    """
    return date_in(id) or (modified(state) if start is None and state else None)


class Listed(NamedTuple):
    """What a source told of a photo: its captions, the name of the XMP file, and `Source.state`."""

    captions: tuple[str, ...]
    side: str
    state: str
