"""Keeps encoded photos until their index is complete, so that an interrupted run can go on."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sqlite3
import time
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from anserini_bridge.given_files import parse_json
from anserini_bridge.storage import UNFINISHED
from lexlip.data import Source
from lexlip.data.facts import Facts
from lexlip.indexing.changes import find_changes
from lexlip.indexing.table_writer import side_names
from lexlip.retrieval.photo import Listed
from lexlip.retrieval.plain_tables import PlainTables, connect

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from lexlip.queries.photo_vectors import PhotoVectors

    Batch = tuple[list[str], csr_matrix]  # ids, rows [n, width]
    Photos = tuple[list[str], csr_matrix, list[tuple[int, Facts]]]  # … and facts, with the source's index

JOURNAL = "encoded.sqlite"
EVERY = 2.0  # seconds after which what was encoded is made durable
_FORMAT = 1
_AT_ONCE = 1024  # photos that are read from the file at a time
_SCHEMA = """
BEGIN;
CREATE TABLE made (settings TEXT, listed REAL);
CREATE TABLE photos (
    id TEXT PRIMARY KEY, path TEXT, side TEXT, facts TEXT, columns BLOB, weights BLOB, sum INTEGER
);
"""


def settings_of(encoder: str, topk: int | None, scheme: str) -> dict[str, Any]:
    """Return the settings of a journal of words: those of a new index are those of its updates."""
    return {"encoder": encoder, "topk": topk, "quantization": scheme}


class Journal:
    """The encoded photos of an index that is being made; used while the index's lock is held.

    They stay if an error leaves the `with` block, or the program ends; all but those of the last two seconds
    if it is killed. A photo is kept unless it has changed since it was read, see `find_changes`.

    Args:
        settings: what the rows depend on; the journal of other settings is dropped.
        source, listed: see `lexlip.indexing.impact.index_photos`.
        width, dtype: of the rows, and of their weights.
        indices: of the photos to encode, in order; None takes all.

    Attributes:
        kept: indices in the source of the photos that need not be encoded again.
    """

    kept: list[int]

    def __init__(
        self,
        index: Path,
        settings: Mapping[str, Any],
        source: Source,
        listed: float,
        width: int,
        dtype: type[np.generic],
        indices: Sequence[int] | None = None,
    ) -> None:
        self.folder = index / UNFINISHED  # which is deleted when the index is complete
        self.source, self.width, self.dtype = source, width, dtype
        self.indices = range(len(source)) if indices is None else indices
        rows = {"format": _FORMAT, "width": width, "weights": np.dtype(dtype).name}
        self._made = json.dumps({**rows, **settings}, sort_keys=True)
        self._listed = listed

    def __enter__(self) -> Self:
        try:
            self._open()
        except sqlite3.DatabaseError:  # damaged, or of other settings
            shutil.rmtree(self.folder)
            self._open()
        return self

    def __exit__(self, *error: object) -> None:
        with closing(self._connection):
            self._connection.commit()
            empty = self._connection.execute("SELECT id FROM photos LIMIT 1").fetchone() is None
        if empty:
            shutil.rmtree(self.folder)

    def forget(self) -> None:
        """Delete what is kept, as the index is complete, unless it is of other settings; the lock is held."""
        if not (self.folder / JOURNAL).is_file():
            return
        try:
            with closing(connect(self.folder / JOURNAL)) as connection:
                same = self._listed_before(connection) is not None
        except sqlite3.DatabaseError:  # damaged
            same = True
        if same:
            shutil.rmtree(self.folder)

    @property
    def missing(self) -> list[int]:
        """Indices in the source of the photos that are to be encoded."""
        kept = set(self.kept)
        return [number for number in self.indices if number not in kept]

    def keep(self, known: Iterable[Photos]) -> None:
        """Keep photos whose rows are known from elsewhere, so that they are not `missing` any more."""
        numbers = set(self.kept)
        for ids, rows, facts in known:
            self._write(ids, rows, facts)
            numbers.update(number for number, _ in facts)
        self._connection.commit()
        self.kept = sorted(numbers)

    def all(self, photos: PhotoVectors, batches: Iterable[Batch]) -> Iterator[Photos]:
        """Yield what is kept and what is encoded, which is kept from then on, in the source's order.

        The batches are of the photos, which are the `missing` ones, with facts, in the source's order.
        """
        done = 0  # of those that are kept
        durable = time.monotonic()
        for ids, rows in batches:
            facts = photos.take_facts(ids)
            self._write(ids, rows, facts)
            if time.monotonic() - durable > EVERY:
                self._connection.commit()
                durable = time.monotonic()
            start = 0
            for place, (number, _) in enumerate(facts):
                if (end := bisect_left(self.kept, number, done)) > done:
                    if place > start:
                        yield ids[start:place], rows[start:place], facts[start:place]
                    yield from self._kept(done, end)
                    start, done = place, end
            yield ids[start:], rows[start:], facts[start:]
        yield from self._kept(done, len(self.kept))

    def _kept(self, start: int, end: int) -> Iterator[Photos]:
        for some in range(start, end, _AT_ONCE):
            yield self._read(self.kept[some : min(some + _AT_ONCE, end)])

    def _open(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self._connection = connect(self.folder / JOURNAL)
        try:
            if not self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                self._connection.executescript(_SCHEMA)
                self._connection.execute("INSERT INTO made VALUES (?, ?)", (self._made, self._listed))
                self._connection.commit()
            listed = self._listed_before(self._connection)
            if listed is None:
                raise sqlite3.DatabaseError("other settings")
            self.kept = self._find(listed)
        except BaseException:
            self._connection.close()
            raise

    def _listed_before(self, connection: PlainTables) -> float | None:
        """Return when the first of the interrupted runs listed the photos; None if it had other settings."""
        found = connection.ask("SELECT listed FROM made WHERE settings = ? LIMIT 1", (self._made,))
        return float(found[0][0]) if found else None

    def _find(self, listed: float) -> list[int]:
        paths, stored = {}, {}
        for id, path, side, total, *fields in self._connection.execute(
            "SELECT id, path, side, sum, facts, columns, weights FROM photos"
        ):
            if total == _sum(*fields):  # otherwise the disk has damaged it
                paths[id], stored[id] = path, Listed((), side, _facts(fields[0]).state)
        changes = find_changes(self.source, paths, {"listed": listed, "paths": paths}, stored)
        again = {*changes.new, *changes.changed}
        return [number for number in self.indices if number not in again]

    def _read(self, numbers: Iterable[int]) -> Photos:
        from scipy.sparse import csr_matrix

        ids, facts, columns, weights = [], [], [], []
        for number in numbers:
            id = self.source.items[number].id
            found = self._connection.execute("SELECT facts, columns, weights FROM photos WHERE id = ?", (id,))
            known, *packed = found.fetchone()
            ids.append(id)
            facts.append((number, _facts(known)))
            columns.append(np.frombuffer(packed[0], np.int32))
            weights.append(np.frombuffer(packed[1], self.dtype))
        starts = np.cumsum([0, *map(len, columns)])
        rows = (np.concatenate(weights), np.concatenate(columns), starts)
        return ids, csr_matrix(rows, shape=(len(ids), self.width)), facts

    def _write(self, ids: list[str], rows: csr_matrix, facts: list[tuple[int, Facts]]) -> None:
        stored = []
        for row, (id, (number, known)) in enumerate(zip(ids, facts, strict=True)):
            span = slice(rows.indptr[row], rows.indptr[row + 1])
            fields = (
                json.dumps(dataclasses.asdict(known)),
                rows.indices[span].astype(np.int32).tobytes(),
                rows.data[span].astype(self.dtype, casting="same_kind").tobytes(),
            )
            place = self.source.path(number), side_names(self.source, number)
            stored.append((id, *place, *fields, _sum(*fields)))
        self._connection.executemany("INSERT OR REPLACE INTO photos VALUES (?, ?, ?, ?, ?, ?, ?)", stored)


def _sum(facts: str, columns: bytes, weights: bytes) -> int:
    return zlib.crc32(weights, zlib.crc32(columns, zlib.crc32(facts.encode())))


def _facts(text: str) -> Facts:
    try:
        fields = parse_json(text)
        texts = {name: tuple(fields[name]) for name in ("captions", "keywords")}
        place = fields.get("place")  # journals of older versions lack it
        return Facts(**{**fields, **texts, "place": tuple(place) if place else None})
    except (ValueError, TypeError, KeyError) as error:
        raise sqlite3.DatabaseError(f"facts are {text!r:.60}") from error
