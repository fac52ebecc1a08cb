"""Cursors: where the next page of a list begins, in one state of an index."""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from lexlip.errors import DataError


class StaleCursor(DataError):
    """A cursor of a state of the index that is gone, or of another query."""


class Cursor(NamedTuple):
    """The start of a page: how many hits come before, and digests of the index's state and of the query."""

    first: int
    state: str
    asked: str

    def __str__(self) -> str:
        return f"{self.first}.{self.state}.{self.asked}"

    @classmethod
    def read(cls, text: str) -> Cursor:
        """Return what `str` wrote, or raise DataError."""
        form = r"([0-9]{1,9})\.([0-9a-f]{16})\.([0-9a-f]{16})"
        found = re.fullmatch(form, text) if isinstance(text, str) else None
        if found is None:
            raise DataError(f"{text!r} is no cursor: give the one that the page before has")
        return cls(int(found[1]), found[2], found[3])


def digest(*parts: object) -> str:
    """Return 16 hexadecimal digits that stand for some plain values."""
    return hashlib.blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def begin(beginning: Cursor, given: str | None) -> Cursor:
    """Return the cursor that is given, or the first; DataError: it is none, or of another query."""
    cursor = beginning if given is None else Cursor.read(given)
    if cursor.asked != beginning.asked:
        raise StaleCursor("the cursor is of another query: search again without it")
    return cursor
