"""SQLite files, which strangers may have made: only plain tables are read, and no question is endless."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
