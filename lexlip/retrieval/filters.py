"""Which photos of an index a search shows, by date, folder and so on; and near-duplicates as one."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lexlip.data.nearness import A_DEGREE
from lexlip.errors import DataError
from lexlip.words.plain_text import composed, readable, whole, words_in

if TYPE_CHECKING:
    from lexlip.retrieval.circle import Circle

MOST_WORDS = 100  # of a caption that is looked for: SQLite takes no condition of thousands

NEAR = 6  # bits in which fingerprints may differ; docs/notes/2026-11-23-near-duplicates.md says why 6

_BITS = np.array([bin(byte).count("1") for byte in range(256)], dtype=np.uint8)
FROM_WHERE = "a distance is from a place: give one, as near:48.1,11.6 or near:lyon"
LAST = "\U0010ffff"  # sorts after everything
_FAR = 9 * 10**9
"""Seconds from 1970 on, until 2255: in nanoseconds, times of files have 64 bits."""
_PARTS = r"(?a)(\d{4})(?:-(\d\d)(?:-(\d\d))?)?"


@dataclass(frozen=True)
class Filters:
    """Conditions that a photo must all meet; None, or an empty text, is no condition.

    A photo whose date or place is unknown meets no condition on it.

    Attributes:
        after: a year, month or day ("2014", "2014-05", "2014-05-03"): taken on or after its beginning.
        before: the same: taken on or before its end, so "2014" includes all of 2014.
        folder: the photo's id is below this folder ("holidays/2014").
        caption: words that are all in the photo's captions or keywords, as whole words, in any case.
        near, within: a place, and how far from it at most; see `lexlip.retrieval.circle.circle_of`.
        album: the photo is in the index's album of this name; see `lexlip.retrieval.albums`.
        listed: the photo's id is one of these, as a search fills it in for the album.
        file_dates: a photo that does not tell when it was taken has the date of its file; see
            `lexlip.retrieval.photo.dated`.

    Raises:
        DataError: one is no text, a date does not exist, `after` is later than `before`, `caption` has
            no word, there is no such place or distance, or `album` is no name.
        MissingPackage: `near` is a name, and the package that knows names is not installed.
    """

    after: str | None = None
    before: str | None = None
    folder: str | None = None
    caption: str | None = None
    near: str | None = None
    within: str | None = None
    album: str | None = None
    listed: tuple[str, ...] | None = None
    file_dates: bool = False

    def __post_init__(self) -> None:
        for name in ("after", "before", "folder", "caption", "near", "within", "album"):
            if not isinstance(value := getattr(self, name), str | None):
                raise DataError(f"'{name}' is {value!r}, and not a text such as {str(value)!r}: give one")
        for name in ("after", "before"):
            _check_date(name, getattr(self, name))
        if self.after and self.before and self.after[: len(self.before)] > self.before[: len(self.after)]:
            raise DataError(f"no photo is taken after {self.after} and before {self.before}: swap the dates")
        if self.folder and whole(self.folder) != self.folder:
            raise DataError(f"no folder has the name {readable(self.folder)}: it holds half a character")
        if self.caption and self.caption.strip() and not words_of(self.caption):
            raise DataError(f"the caption to look for, {self.caption!r}, has no word in it: give words")
        if (words := len(words_of(self.caption or ""))) > MOST_WORDS:
            raise DataError(f"the caption to look for has {words:,} words: give at most {MOST_WORDS}")
        if self.within:
            from lexlip.retrieval.circle import kilometres_of

            kilometres_of(self.within)
        _ = self.circle  # which says what is wrong with it
        if self.album:
            from lexlip.retrieval.albums import check_name

            check_name(self.album)

    def __bool__(self) -> bool:
        """Return whether anything is filtered."""
        given = self.after, self.before, self.below, self.near, self.within, self.album
        return any(given) or bool(words_of(self.caption or "")) or self.listed is not None

    @cached_property
    def circle(self) -> Circle | None:
        """What is near; None is no condition."""
        if not self.near:
            return None
        from lexlip.retrieval.circle import circle_of

        return circle_of(self.near, self.within)

    @property
    def written(self) -> tuple[int, int]:
        """The first time of a file that `after` allows, and the first one that `before` does not.

        In seconds from the beginning of 1970 on, by one clock that is never put forward or back.
        """
        return _begin(self.after) if self.after else -_FAR, _end(self.before) if self.before else _FAR

    def to_sql(self, of_file: str) -> tuple[str, list[str | float]]:
        """Return them as a condition on the rows of a table of photos, with its values.

        Args:
            of_file: the SQL for the date of a photo that only its file dates, as text.

        Raises:
            DataError: `within` is given without `near`.
        """
        if self.within and not self.near:
            raise DataError(FROM_WHERE)
        asked: list[tuple[str, list[str | float]]] = []
        if self.after or self.before:
            period = [self.after or "", (self.before or "") + LAST]
            if self.file_dates:
                asked.append((f"(taken BETWEEN ? AND ? OR {of_file} BETWEEN ? AND ?)", [*period, *period]))
            else:  # without OR, which reads the whole table
                asked.append(("taken BETWEEN ? AND ?", [*period]))
        if self.below and self.below.isascii():  # "0" is the character after "/"
            asked.append(("id > ? AND id < ?", [f"{self.below}/", f"{self.below}0"]))
        elif self.below:
            asked.append(("instr(composed(id), ?) = 1", [f"{composed(self.below)}/"]))
        asked += [("instr(words, ?) > 0", [f" {word} "]) for word in words_of(self.caption or "")]
        if (circle := self.circle) is not None:
            place = [circle.latitude, circle.longitude]
            band = [place[0] - circle.kilometres / A_DEGREE, place[0] + circle.kilometres / A_DEGREE]
            near = "latitude BETWEEN ? AND ? AND distance(latitude, longitude, ?, ?) <= ?"
            asked.append((near, [*band, *place, circle.kilometres]))
        if self.listed is not None:
            asked.append(("id IN (SELECT value FROM json_each(?))", [json.dumps(self.listed)]))
        conditions = " AND ".join(condition for condition, _ in asked)
        return conditions or "true", [value for _, values in asked for value in values]

    @property
    def below(self) -> str:
        """The folder without slashes at its ends; "" is no condition."""
        return (self.folder or "").removeprefix("./").strip("/")


def words_of(text: str) -> list[str]:
    """Return the words of a text as captions are filtered by them, case folded."""
    return words_in(unicodedata.normalize("NFKC", text).casefold(), letters=r"\w")


def _begin(period: str) -> int:
    """Return when a year, month or day begins; see `Filters.written`."""
    year, month, day = (int(part or 1) for part in _parts(period))
    return max(-_FAR, min(int(datetime(year, month, day, tzinfo=UTC).timestamp()), _FAR))


def _end(period: str) -> int:
    """Return when the next year, month or day begins."""
    year, month, day = (int(part or 0) for part in _parts(period))
    try:
        later = date(year, month or 1, day or 1) + timedelta(days=1 if day else 31 if month else 366)
    except OverflowError:
        return _FAR
    return _begin(later.isoformat()[: len(period)])


def _parts(period: str) -> Sequence[str | None]:
    """Return the year, the month and the day of a date; ValueError: it has another form."""
    found = re.fullmatch(_PARTS, period)
    if found is None:
        raise ValueError(f"{period!r} is no date")
    return found.groups()


def _check_date(name: str, value: str | None) -> None:
    """Raise DataError unless a date exists."""
    if not value:
        return
    try:
        year, month, day = (int(part or 1) for part in _parts(value))
    except ValueError:
        raise DataError(f"'{name}' is {value!r}: give a date such as 2014, 2014-05 or 2014-05-03") from None
    try:
        date(year, month, day)
    except ValueError:
        raise DataError(f"'{name}' is {value!r}, and there is no such date") from None


def group_alike(photos: Sequence[tuple[str, str, int | None]]) -> list[list[str]]:
    """Put near-duplicates together, in the order of the first of each group.

    A photo joins the first group whose first photo has the same digest, or nearly the same fingerprint. Of
    each photo, best first, come its id, its digest ("" is unknown) and its fingerprint.
    """
    prints = np.zeros(len(photos), dtype=np.uint64)  # of the groups' first photos
    usable = np.zeros(len(photos), dtype=bool)
    digests: dict[str, int] = {}
    groups: list[list[str]] = []
    for id, digest, print in photos:
        number = digests.get(digest) if digest else None
        if number is None and print is not None:
            near = usable[: len(groups)] & (distances(print, prints[: len(groups)]) <= NEAR)
            number = int(np.argmax(near)) if near.any() else None
        if number is None:
            number = len(groups)
            groups.append([])
            prints[number], usable[number] = print or 0, print is not None
        groups[number].append(id)
        if digest:
            digests.setdefault(digest, number)
    return groups


def distances(one: int, others: Sequence[int] | NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return in how many bits each of n fingerprints differs from one, int64 [n]."""
    different = np.asarray(others, dtype=np.uint64) ^ np.uint64(one)
    return _BITS[different.view(np.uint8).reshape(-1, 8)].sum(axis=1, dtype=np.int64)
