"""The SQLite file of a table of photos: its schema, and how it is opened.

Strangers may have made it, so only plain tables are read, and no question is endless.
"""

from __future__ import annotations

import json
import re
import sqlite3
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FORMAT = 3  # of the table; of older versions: in 1 rows have no checksums, in 2 no places

INDEX_OF_PLACES = "CREATE INDEX photos_latitude ON photos (latitude) WHERE latitude IS NOT NULL"
SCHEMA = f"""
PRAGMA user_version = {FORMAT};
CREATE TABLE roots (number INTEGER PRIMARY KEY, absolute TEXT NOT NULL UNIQUE, relative TEXT NOT NULL,
    sum INTEGER);
CREATE TABLE photos (
    id TEXT PRIMARY KEY,
    root INTEGER,             -- NULL: file is an absolute path, or only a name
    file TEXT NOT NULL,       -- below the root
    member TEXT NOT NULL,     -- in the file, if that is a tar
    start INTEGER,            -- where its bytes begin in a tar
    size INTEGER,             -- bytes
    width INTEGER NOT NULL, height INTEGER NOT NULL,
    taken TEXT, camera TEXT,
    captions TEXT NOT NULL,   -- of the source, as JSON
    embedded TEXT NOT NULL,   -- those in the file, and beside it in XMP
    keywords TEXT NOT NULL,
    side TEXT NOT NULL,       -- name of the XMP file beside it
    digest TEXT NOT NULL,
    fingerprint INTEGER,      -- as a signed number
    state TEXT NOT NULL DEFAULT '',  -- of its files when they were read; older tables lack it
    latitude REAL, longitude REAL,   -- degrees north and east; older tables lack them
    sum INTEGER,              -- see `row_sum`
    words TEXT NOT NULL       -- of captions and keywords, each between spaces
) WITHOUT ROWID;
CREATE INDEX photos_taken ON photos (taken) WHERE taken IS NOT NULL;
{INDEX_OF_PLACES};
"""
UNREADABLE = """
CREATE TABLE IF NOT EXISTS unreadable (  -- photos of the source; older tables lack these
    id TEXT PRIMARY KEY,
    size INTEGER NOT NULL, written INTEGER NOT NULL,  -- of the file
    reason TEXT NOT NULL
) WITHOUT ROWID;
"""

TEXTS = """
CREATE TABLE IF NOT EXISTS texts (  -- what was read in photos; older tables lack it
    digest TEXT PRIMARY KEY, lines TEXT NOT NULL, sum INTEGER
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS unreadable_texts (  -- on which a reader of text failed; older tables lack it
    digest TEXT PRIMARY KEY, reader TEXT NOT NULL
) WITHOUT ROWID;
"""
HAS_TEXTS = "SELECT 1 FROM sqlite_master WHERE name = 'texts'"
HAS_UNREADABLE_TEXTS = "SELECT 1 FROM sqlite_master WHERE name = 'unreadable_texts'"

ROOT_COLUMNS = ("number", "absolute", "relative")
TEXT_COLUMNS = ("digest", "lines")
COLUMNS = (
    *("id", "root", "file", "member", "start", "captions", "side"),
    *("size", "width", "height", "taken", "camera", "embedded", "keywords", "digest", "fingerprint"),
    *("words", "state", "latitude", "longitude"),
)
OF_FORMAT_2 = COLUMNS[:-2]
NEW_COLUMNS = ("state", "latitude", "longitude")  # older tables lack them
_TEXT, _NUMBER, _DEGREES = str | None, int | None, float | None
TYPES: dict[str, Any] = {
    **{"id": str, "root": _NUMBER, "file": str, "member": str, "start": _NUMBER, "size": _NUMBER},
    **{"width": int, "height": int, "taken": _TEXT, "camera": _TEXT},
    **{"captions": str, "embedded": str, "keywords": str, "digest": str, "fingerprint": _NUMBER},
    **{"latitude": _DEGREES, "longitude": _DEGREES, "state": _TEXT},
}
"""Of the columns that a `Photo` has."""

HAS_PLACES = "SELECT 1 FROM pragma_table_info('photos') WHERE name = 'latitude'"
HAS_STATES = "SELECT 1 FROM pragma_table_info('photos') WHERE name = 'state'"

_STEPS = 1_000_000  # of SQLite between two looks at how many there were
_STEPS_A_PAGE = 10_000  # a page of 4 kB holds some dozen photos, and one takes less than 100 steps
_COLUMN = r"\w+(?: (?:TEXT|INTEGER|REAL|BLOB))?(?: PRIMARY KEY| NOT NULL| UNIQUE| DEFAULT '')*"
_PLAIN = re.compile(
    rf"CREATE TABLE \w+ ?\( ?{_COLUMN}(?: ?, ?{_COLUMN})* ?\)(?: WITHOUT ROWID)?"
    r"|CREATE INDEX \w+ ON \w+ ?\(\w+\) WHERE \w+ IS NOT NULL",
    re.ASCII,
)


class PlainTables(sqlite3.Connection):
    """A connection to a file of plain tables; see `connect`."""

    def ask(self, question: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of an answer.

        Raises:
            sqlite3.Error: the file is damaged, or the question takes more steps than its size explains, as if
                pages led back to one another.
        """
        (pages,) = self.execute("PRAGMA page_count").fetchone()
        left = iter(range(10 + pages * _STEPS_A_PAGE // _STEPS))
        self.set_progress_handler(lambda: next(left, None) is None, _STEPS)
        try:
            return self.execute(question, values).fetchall()
        finally:
            self.set_progress_handler(None, 0)


def connect(file: str | Path, **how: Any) -> PlainTables:
    """Open a file as `sqlite3.connect` does, which takes the same arguments.

    Raises:
        sqlite3.Error: it cannot be opened, is damaged, or holds more than tables of stored columns and their
            indexes: a view, a trigger, a check, or a computed column is a program.
    """
    connection = sqlite3.connect(file, factory=PlainTables, **how)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        for name, made_by in connection.ask("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"):
            without_comments = re.sub(r"--.*", "", made_by)
            if not _PLAIN.fullmatch(" ".join(without_comments.split())):
                raise sqlite3.DatabaseError(f"{name!r:.60} is no plain table")
    except UnicodeDecodeError as error:  # of SQLite's message, which quotes a damaged schema
        connection.close()
        raise sqlite3.DatabaseError("malformed database schema") from error
    except BaseException:
        connection.close()
        raise
    return connection


def row_sum(*row: Any) -> int:
    """Return the checksum of a row, given its other columns as in COLUMNS or ROOT_COLUMNS."""
    return zlib.crc32(json.dumps(row, default=repr).encode())  # in a damaged row anything may stand
