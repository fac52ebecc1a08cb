"""Writes the table of an index's photos; see `lexlip.retrieval.photo_table`."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from anserini_bridge import CorruptIndex
from anserini_bridge.given_files import parse_json
from anserini_bridge.storage import remove, sync
from lexlip.data import Source, Unreadable
from lexlip.data.facts import Facts
from lexlip.retrieval.collection import store_place
from lexlip.retrieval.filters import words_of
from lexlip.retrieval.given_table import write_given_words
from lexlip.retrieval.plain_tables import (
    COLUMNS,
    FORMAT,
    HAS_PLACES,
    HAS_STATES,
    INDEX_OF_PLACES,
    OF_FORMAT_2,
    ROOT_COLUMNS,
    SCHEMA,
    TEXT_COLUMNS,
    TEXTS,
    UNREADABLE,
    connect,
    row_sum,
)
from lexlip.retrieval.text_lines import TextLine, store_lines

TABLE = re.compile(r"photos-([1-9][0-9]*)\.sqlite(-journal)?")
_OF_TEXTS = ("texts", "unreadable_texts")  # tables of photos' contents
_OF_SOURCE = ("root", "file", "member", "start", "captions", "side")  # columns that a listing tells


class TableWriter:
    """Writes a new file, complete and durable when the `with` block is left; an exception removes it.

    The caller holds the index's lock, and names the file in index.json: nobody reads it before.

    Args:
        folder, index: the index's data folder, and its folder.
        source: the photos, as they are listed now; None if photos stay as they are.
        old: name of the table whose copy is changed; None starts an empty one.
    """

    def __init__(self, folder: Path, index: Path, source: Source | None, old: str | None = None) -> None:
        self.folder, self.index, self._source, self.old = folder, index, source, old
        found = [TABLE.fullmatch(path.name) for path in folder.glob("photos-*")]
        self.name = f"photos-{max((int(match[1]) for match in found if match), default=0) + 1}.sqlite"

    def __enter__(self) -> Self:
        file = self.folder / self.name
        if self.old is not None:
            shutil.copyfile(self.folder / self.old, file)
        self._connection = connect(file, isolation_level=None)
        # what is written counts only once index.json names it, after fsync: SQLite needs no journal
        self._connection.execute("PRAGMA journal_mode = OFF")
        self._connection.execute("PRAGMA synchronous = OFF")
        if self.old is None:
            self._connection.executescript(SCHEMA)
        else:
            self._update_format()
        self._connection.executescript(UNREADABLE + TEXTS)
        self._connection.execute("BEGIN")
        if self._source is not None:
            self._set_roots()
        return self

    @property
    def source(self) -> Source:
        assert self._source is not None
        return self._source

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        file = self.folder / self.name
        if kind is not None:
            self._connection.close()
            file.unlink(missing_ok=True)
            return
        self._add_sums("photos", COLUMNS)
        self._add_sums("roots", ROOT_COLUMNS)
        for table in _OF_TEXTS:
            self._connection.execute(f"DELETE FROM {table} WHERE digest NOT IN (SELECT digest FROM photos)")
        self._add_sums("texts", TEXT_COLUMNS)
        try:
            write_given_words(self._connection)
        except ValueError as error:
            self._connection.close()
            file.unlink()
            raise CorruptIndex(f"{file} cannot be made ({error}): build the index again") from None
        self._connection.execute("COMMIT")
        self._connection.close()
        sync(file)

    def _update_format(self) -> None:
        """Add what a table of an older version lacks."""
        if not self._connection.execute(HAS_STATES).fetchone():
            self._connection.execute("ALTER TABLE photos ADD COLUMN state TEXT NOT NULL DEFAULT ''")
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version == 1:
            for table in ("photos", "roots"):
                self._connection.execute(f"ALTER TABLE {table} ADD COLUMN sum INTEGER")
        if not self._connection.execute(HAS_PLACES).fetchone():
            for name in ("latitude", "longitude"):
                self._connection.execute(f"ALTER TABLE photos ADD COLUMN {name} REAL")
            self._connection.create_function("row_sum", len(OF_FORMAT_2), row_sum)
            was = f"row_sum({', '.join(OF_FORMAT_2)})"  # a damaged row keeps its checksum, which stays wrong
            self._connection.execute(f"UPDATE photos SET sum = NULL WHERE sum = {was}")
            self._connection.execute(INDEX_OF_PLACES)
        self._connection.execute(f"PRAGMA user_version = {FORMAT}")

    def _add_sums(self, table: str, columns: Sequence[str]) -> None:
        """Give a checksum to the rows that were written; those of before keep theirs."""
        self._connection.create_function("row_sum", len(columns), row_sum)
        self._connection.execute(f"UPDATE {table} SET sum = row_sum({', '.join(columns)}) WHERE sum IS NULL")

    def add(self, photos: Iterable[tuple[int, Facts]]) -> None:
        """Store photos, given by their index in the source, with their facts; old rows are replaced."""
        marks = ", ".join("?" * len(COLUMNS))
        self._connection.executemany(
            f"INSERT OR REPLACE INTO photos ({', '.join(COLUMNS)}) VALUES ({marks})",
            (self._row(number, facts) for number, facts in photos),
        )

    def refresh(self, numbers: Iterable[int], states: Mapping[str, str] | None = None) -> None:
        """Store where photos lie now, and their captions, by index in the source; the facts about them stay.

        States are stored by id, of photos that had none.
        """
        columns = ("id", *_OF_SOURCE, "embedded", "keywords")
        rows = self._connection.execute(f"SELECT {', '.join(columns)} FROM photos").fetchall()
        stored = {row[0]: row[1:] for row in rows}
        for number in numbers:
            id, captions = self.source.items[number].id, self.source.items[number].captions
            *was, embedded, keywords = stored.get(id, (None,) * len(columns[1:]))
            now = [*self._place(number), _json(captions), side_names(self.source, number)]
            if embedded is None:  # an older version made the index
                self.add([(number, Facts())])
            elif was != now:
                texts = [*captions, *parse_json(embedded), *parse_json(keywords)]
                self._connection.execute(
                    f"UPDATE photos SET {', '.join(f'{name} = ?' for name in _OF_SOURCE)}, words = ?,"
                    " sum = NULL WHERE id = ?",
                    (*now, _words(texts), id),
                )
        pairs = ((state, id) for id, state in (states or {}).items())
        self._connection.executemany("UPDATE photos SET state = ?, sum = NULL WHERE id = ?", pairs)
        self._connection.execute(
            "DELETE FROM roots WHERE number NOT IN (SELECT root FROM photos WHERE root IS NOT NULL)"
        )

    def delete(self, ids: Iterable[str]) -> None:
        """Delete photos; ids that are not there are ignored."""
        self._connection.executemany("DELETE FROM photos WHERE id = ?", ((id,) for id in ids))

    def add_texts(
        self, found: Mapping[str, Iterable[TextLine]] | None, failed: Mapping[str, str] | None = None
    ) -> None:
        """Store the lines of text of photos, by their digests; None forgets those of all photos.

        Of photos on which a reader of text has `failed`, it is stored which one that was.
        """
        if found is None:
            for table in _OF_TEXTS:
                self._connection.execute(f"DELETE FROM {table}")
        self._connection.executemany(
            "INSERT OR REPLACE INTO unreadable_texts (digest, reader) VALUES (?, ?)", (failed or {}).items()
        )
        rows = ((digest, store_lines(lines)) for digest, lines in (found or {}).items())
        self._connection.executemany("INSERT OR REPLACE INTO texts (digest, lines) VALUES (?, ?)", rows)

    def remember(self, unreadable: Mapping[str, Unreadable]) -> None:
        """Store which photos are unreadable, by id, in place of those of before."""
        self._connection.execute("DELETE FROM unreadable")
        rows = ((id, *known) for id, known in unreadable.items())
        self._connection.executemany("INSERT INTO unreadable VALUES (?, ?, ?, ?)", rows)

    def _set_roots(self) -> None:
        """Store the source's folders; those of the old table keep their numbers."""
        roots = [store_place(root, self.index) for root in self.source.roots]
        self._connection.executemany(
            "INSERT INTO roots (absolute, relative) VALUES (?, ?)"
            " ON CONFLICT (absolute) DO UPDATE SET relative = excluded.relative, sum = NULL",
            roots,
        )
        numbers = dict(self._connection.execute("SELECT absolute, number FROM roots"))
        self._roots = {f"{absolute.rstrip('/')}/": numbers[absolute] for absolute, _ in roots}

    def _row(self, number: int, facts: Facts) -> tuple[Any, ...]:
        self.source.check_place(number, facts)
        id, captions = self.source.items[number].id, self.source.items[number].captions
        unsigned = facts.fingerprint
        signed = unsigned if unsigned is None or unsigned < 2**63 else unsigned - 2**64
        return (
            id,
            *self._place(number),
            _json(captions),
            side_names(self.source, number),
            self.source.place(number).size if facts.size is None else facts.size,
            facts.width,
            facts.height,
            facts.taken,
            facts.camera,
            _json(facts.captions),
            _json(facts.keywords),
            facts.digest,
            signed,
            _words([*captions, *facts.captions, *facts.keywords]),
            facts.state,
            *(facts.place or (None, None)),
        )

    def _place(self, number: int) -> tuple[int | None, str, str, int | None]:
        """Return the columns root, file, member and start of a photo of the source."""
        prefix, file, member, start = split_path(self.source, number, self._roots)
        return None if prefix is None else self._roots[prefix], file, member, start


def split_path(
    source: Source, number: int, prefixes: Iterable[str]
) -> tuple[str | None, str, str, int | None]:
    """Return where a photo of a source lies.

    Returns:
        The longest of some prefixes that its file's path begins with, if one does, and the rest of that path;
        the member if the file is a tar, and where its bytes begin there.
    """
    file, start, _ = source.place(number)
    path = source.path(number)
    member = path[len(file) + 1 :] if path != file else ""
    prefix = max(filter(file.startswith, prefixes), key=len, default=None)
    return prefix, file[len(prefix or "") :], member, start


def side_names(source: Source, number: int) -> str:
    """Return the names of a photo's `sides`, with slashes between them; "" if there are none."""
    return "/".join(map(os.path.basename, source.sides(number)))


def remove_old_tables(folder: Path, keep: str | None) -> None:
    """Delete the tables that index.json does not name; on Windows one that is open stays until later."""
    for path in folder.glob("photos-*"):
        if TABLE.fullmatch(path.name) and path.name != keep:
            remove(path)


def _words(texts: Sequence[str]) -> str:
    """Return the distinct words of texts, each between spaces."""
    words = dict.fromkeys(words_of(" ".join(texts)))
    return f" {' '.join(words)} " if words else ""


def _json(texts: Sequence[str]) -> str:
    return json.dumps(list(texts), ensure_ascii=False)
