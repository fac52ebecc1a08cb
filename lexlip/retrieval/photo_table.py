"""The facts about an index's photos: where they lie, when they were taken, their captions.

They are in one SQLite file in the index's data folder, DIR/data-<n>/photos-<m>.sqlite, which index.json
names (`extra["photos"]`). It never changes: an update writes a new one, and the next update deletes the old.

Each row has a checksum, which is compared when it is read by its id. Before a question about all rows, the
whole file is compared with its checksum in index.json; a small one as soon as it is opened.

A root is a folder that many paths begin with; `lexlip.retrieval.collection.place_now` says where it is now.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from anserini_bridge import CorruptIndex, IndexHeader, read_header
from anserini_bridge.given_files import check_file, parse_json
from anserini_bridge.metadata import ANSERINI
from anserini_bridge.storage import checksum
from lexlip.data.files import Place, find_location, read_place
from lexlip.data.nearness import distance, is_place
from lexlip.errors import DataError, UnreadableImage
from lexlip.retrieval.collection import check_stored, locate, place_now
from lexlip.retrieval.filters import Filters, group_alike
from lexlip.retrieval.given_table import GivenWordsTable
from lexlip.retrieval.given_words import Phrase, Texts
from lexlip.retrieval.photo import Dated, Listed, Photo, dated, file_date
from lexlip.retrieval.plain_tables import (
    COLUMNS,
    FORMAT,
    HAS_TEXTS,
    HAS_UNREADABLE_TEXTS,
    NEW_COLUMNS,
    ROOT_COLUMNS,
    TEXT_COLUMNS,
    TYPES,
    PlainTables,
    connect,
    row_sum,
)
from lexlip.retrieval.seal import CHANGED, read_as_indexed, table_checksum
from lexlip.retrieval.text_lines import TextLine, stored_lines
from lexlip.words.plain_text import composed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lexlip.data import Unreadable

_SMALL = 2**24  # bytes of a table that is compared with its checksum when it is opened
_AT_ONCE = 10_000  # ids of one question to SQLite
_ONE_OF = "id IN (SELECT value FROM json_each(?))"
_HAS_PLACE = "latitude IS NOT NULL AND longitude IS NOT NULL"


def open_photos(index: str | Path, metadata: IndexHeader) -> PhotoTable:
    """Open the table of photos that an index has; the table of now, if an update has deleted that one since.

    Raises:
        CorruptIndex: the table is missing or damaged, or `extra` is.
        IndexNotFound, IndexVersion: the index is gone meanwhile.
    """
    index = Path(index)
    while True:
        check_stored(index, metadata)
        name = metadata.extra.get("photos")
        if name is None:
            return OldPhotoTable(index, metadata)
        file = index / metadata.directory / name
        try:
            check_file(file)
            return PhotoTable(index, file, metadata.files.get(name))
        except (OSError, sqlite3.Error) as error:
            now = read_header(index)
            if (now.directory, now.extra.get("photos")) == (metadata.directory, name):
                raise _unreadable(file, error) from None
            metadata = now


class PhotoTable(GivenWordsTable):
    """The photos of an index as one commit has them; several threads may use it.

    Raises:
        sqlite3.Error: the file is missing or damaged.
        CorruptIndex: another version of this program wrote it, or it has another checksum than is wanted.
    """

    may_lack_places = True
    """Whether an older version may have written it, which read no places."""

    _opened = False  # tables that lie elsewhere open no file here: they are asked by `get`

    def __init__(self, index: Path, file: Path, wanted: str | None = None) -> None:
        self.file, self._wanted = file, wanted
        self._lock = threading.Lock()
        self._connection = _connect(file)
        self._opened = True
        self._finalizer = weakref.finalize(self, self._connection.close)
        self._size = file.stat().st_size
        if self._size <= _SMALL:
            self._check()
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version not in range(1, FORMAT + 1):
            self.close()
            raise CorruptIndex(f"{file} has format {version}, not {FORMAT}: build the index again")
        self._has_sums = version > 1
        there = {name for (name,) in self._rows("SELECT name FROM pragma_table_info('photos')")}
        self._columns = [name for name in COLUMNS if name in there or name not in NEW_COLUMNS]
        folder = index.resolve()
        roots = self._checked("roots", ROOT_COLUMNS)
        self._roots = {
            number: place_now(absolute, relative, folder).rstrip("/") for number, absolute, relative in roots
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the table, as also happens when nobody holds it any more."""
        self._finalizer()

    def __len__(self) -> int:
        return int(self._all("SELECT count(*) FROM photos")[0][0])

    def get(self, ids: Sequence[str]) -> list[Photo | None]:
        """Return photos; None for those that the index does not hold."""
        found = self._of(ids)
        lines = self.lines([row["digest"] for row in found.values()])
        return [self._photo(found[id], lines) if id in found else None for id in ids]

    def held(self, ids: Sequence[str]) -> set[str]:
        """Return those of some ids that photos have; nothing is compared, so damage may hide some.

        It is for ids of which most are guesses: for one that is missing, `get` compares the whole file.
        """
        if not self._opened:
            return {photo.id for photo in self.get(ids) if photo is not None}
        return {id for (id,) in self._rows(f"SELECT id FROM photos WHERE {_ONE_OF}", [json.dumps(list(ids))])}

    def paths(self) -> dict[str, str]:
        """Return where every photo is, by id."""
        rows = self._all("SELECT id, root, file, member FROM photos")
        return {id: self._path(root, file, member) for id, root, file, member in rows}

    def listed(self) -> dict[str, Listed]:
        """Return what the source told of every photo, by id."""
        rows = self._all(f"SELECT id, captions, side, {self._state} FROM photos")
        return {id: Listed(tuple(self._list(captions)), side, state) for id, captions, side, state in rows}

    @property
    def _state(self) -> str:
        """The column with the states of files, or what stands for it where there is none."""
        return "state" if "state" in self._columns else "''"

    @property
    def _of_file(self) -> str:
        """The date of a photo that only its file dates, as SQL; see `lexlip.retrieval.photo.file_date`."""
        return f"CASE WHEN taken IS NULL THEN file_date(id, start, {self._state}) END"

    def digests(self) -> dict[str, str]:
        """Return what identifies the content of every photo, by id."""
        return dict(self._all("SELECT id, digest FROM photos"))

    def unreadable(self) -> dict[str, Unreadable]:
        """Return the photos that were found unreadable, by id."""
        if not self._all("SELECT 1 FROM sqlite_master WHERE name = 'unreadable'"):
            return {}
        from lexlip.data.source import Unreadable

        return {id: Unreadable(*known) for id, *known in self._all("SELECT * FROM unreadable")}

    def texts(self) -> tuple[list[str], list[str]]:
        """Return the ids of the photos that have captions or keywords, and these as one text each."""
        rows = self._all("SELECT id, captions, embedded, keywords FROM photos WHERE words != '' ORDER BY id")
        texts = [" ".join(text for part in parts for text in self._list(part)) for _, *parts in rows]
        return [row[0] for row in rows], texts

    def dates(self) -> list[Dated]:
        """Return the dates of all photos, by id; see `lexlip.retrieval.photo.dated`."""
        return self._dates("true")

    def dates_of(self, ids: Sequence[str]) -> list[Dated | None]:
        """Return the dates of some photos; None for those that the index does not hold."""
        found = {one.id: one for one in self._dates(_ONE_OF, [json.dumps(list(ids))])}
        return [found.get(id) for id in ids]

    def _dates(self, where: str, values: Sequence[Any] = ()) -> list[Dated]:
        rows = self._all(
            f"SELECT id, taken, start, {self._state} FROM photos WHERE {where} ORDER BY id", values
        )
        try:
            return [dated(*row) for row in rows]
        except TypeError as error:  # SQLite keeps anything
            raise self._damaged(error) from None

    def select(self, filters: Filters) -> list[str]:
        """Return the ids of the photos that meet conditions, in any order."""
        if filters.circle and "latitude" not in self._columns:
            return []
        condition, values = filters.to_sql(self._of_file)
        return [id for (id,) in self._all(f"SELECT id FROM photos WHERE {condition}", values)]

    def _texts(self, ids: Sequence[str]) -> dict[str, Texts]:
        return {photo.id: photo.given for photo in self.get(ids) if photo is not None}

    def unread(self, reader: str = "") -> list[str]:
        """Return the photos in which nobody has looked for text, one of each content, by id.

        Those on which this reader failed are none of them.
        """
        known = "digest NOT IN (SELECT digest FROM texts)" if self._all(HAS_TEXTS) else "true"
        failed = json.dumps([one for one, by in self.unreadable_texts().items() if by == reader])
        rows = self._all(
            f"SELECT min(id) FROM photos WHERE digest != '' AND {known}"
            " AND digest NOT IN (SELECT value FROM json_each(?)) GROUP BY digest ORDER BY min(id)",
            [failed],
        )
        return [id for (id,) in rows]

    def unreadable_texts(self) -> dict[str, str]:
        """Return which reader of text has failed on photos, by their digests."""
        if not self._all(HAS_UNREADABLE_TEXTS):
            return {}
        return dict(self._all("SELECT digest, reader FROM unreadable_texts"))

    def with_text(self) -> int:
        """Return in how many photos text was found."""
        if not self._all(HAS_TEXTS):
            return 0
        found = "digest IN (SELECT digest FROM texts WHERE lines != '[]')"
        return int(self._all(f"SELECT count(*) FROM photos WHERE {found}")[0][0])

    def lines(self, digests: Sequence[str] | None = None) -> dict[str, tuple[TextLine, ...]]:
        """Return the text in photos by their digests, where it was looked for; None is in all photos."""
        if not self._rows(HAS_TEXTS):
            return {}
        asked = () if digests is None else (json.dumps(list(digests)),)
        where = "digest IN (SELECT value FROM json_each(?))" if asked else "true"
        try:
            rows = self._checked("texts", TEXT_COLUMNS, where, asked)
            return {digest: stored_lines(lines) for digest, lines in rows}
        except (ValueError, TypeError) as error:
            raise self._damaged(error) from None

    def places(self, ids: Sequence[str]) -> dict[str, tuple[float, float]]:
        """Return where photos were taken, in degrees north and east, by id, where it is known."""
        if "latitude" not in self._columns:
            return {}
        asked = f"SELECT id, latitude, longitude FROM photos WHERE {_HAS_PLACE}"
        rows = self._all(f"{asked} AND {_ONE_OF}", [json.dumps(list(ids))])
        places = self._degrees([place for _, *place in rows]).tolist()
        return {id: (north, east) for (id, *_), (north, east) in zip(rows, places, strict=True)}

    def located(self, filters: Filters) -> NDArray[np.float64]:
        """Return the places that are known of photos that meet conditions, degrees north and east [n, 2]."""
        if "latitude" not in self._columns:
            return self._degrees([])
        condition, values = filters.to_sql(self._of_file)
        where = f"{_HAS_PLACE} AND {condition}"
        return self._degrees(self._all(f"SELECT latitude, longitude FROM photos WHERE {where}", values))

    def _degrees(self, places: Sequence[Sequence[Any]]) -> NDArray[np.float64]:
        try:
            return np.array(places, dtype=np.float64).reshape(-1, 2)
        except (ValueError, TypeError) as error:  # SQLite keeps anything
            raise self._damaged(error) from None

    def same_name(self, id: str) -> list[str]:
        """Return the ids that are the same name in Unicode's NFC."""
        rows = self._all("SELECT id FROM photos WHERE composed(id) = ?", [composed(id)])
        return [same for (same,) in rows]

    def facets(self) -> dict[str, Any]:
        """Return what can be filtered by.

        Returns:
            "folders": every folder with the number of photos below it, by name; "first" and "last": days of
            the oldest and the newest photo, or None; "dated", "captioned", "located": how many photos have a
            date, captions or keywords, and a place; "by_file_time": how many more have that of their file.
        """
        return dict(self._facets)

    @cached_property
    def _facets(self) -> dict[str, Any]:
        folders: Counter[str] = Counter()
        for (id,) in self._all("SELECT id FROM photos"):
            folders.update(_folders_above(id))
        first, last, taken, by_file_time, captioned = self._all(
            "SELECT substr(min(taken), 1, 10), substr(max(taken), 1, 10), count(taken),"
            f" count({self._of_file}), total(words != '') FROM photos"
        )[0]
        if not all(isinstance(day, str | None) for day in (first, last)):  # SQLite keeps anything
            raise self._damaged(f"{first!r:.60} is no date")
        located = 0
        if "latitude" in self._columns:
            located = self._all("SELECT count(latitude) FROM photos")[0][0]
        return {
            "folders": [{"folder": name, "photos": folders[name]} for name in sorted(folders)],
            "first": first,
            "last": last,
            "dated": taken,
            "by_file_time": by_file_time,
            "captioned": int(captioned),
            "located": located,
        }

    def read(self, id: str) -> bytes:
        """Return the bytes of a photo as they are now.

        UnreadableImage: it is not in the index, or gone; or the tar that it is in was written anew.
        """
        photo, place = self._place(id)
        data = read_place(place)
        if place.offset is not None and photo.digest:
            from lexlip.data.facts import digest

            if digest(data) != photo.digest:
                raise UnreadableImage(CHANGED, photo.path)
        return data

    def send(self, id: str, folders: Sequence[str], tables: Mapping[str, str]) -> bytes:
        """Return the bytes of a photo to be sent to others, as they were indexed, see `read_as_indexed`.

        The folders are real paths of those that the user named; for `tables` see `sealed_tables`.
        """
        return self.send_sealed(id, folders, tables.get(self.file.name, ""))

    def send_sealed(self, id: str, folders: Sequence[str], table: str) -> bytes:
        """Do what `send` does, given the checksum of the table that this user sealed; "" is none."""
        photo, place = self._place(id)
        sealed = table != "" and table == self._checksum
        states = self._rows(f"SELECT {self._state} FROM photos WHERE id = ?", [id])
        state = states[0][0] if states else ""
        roots = map(os.path.realpath, self._roots.values() if sealed else ())
        return read_as_indexed(place, photo.digest, state, (*folders, *roots), sealed)

    @cached_property
    def _checksum(self) -> str:
        return table_checksum(self.file)

    def files(self) -> set[str]:
        """Return the paths of the files that hold photos."""
        return {self._path(*row) for row in self._rows("SELECT DISTINCT root, file FROM photos")}

    def _place(self, id: str) -> tuple[Photo, Place]:
        """Return a photo, and where its bytes are."""
        (photo,) = self.get([id])
        if photo is None:
            raise UnreadableImage("not in the index", id)
        size = None if photo.offset is None else photo.size
        return photo, Place(photo.file, photo.offset, size)

    def group(self, ids: Sequence[str]) -> list[list[str]]:
        """Put near-duplicates among photos together, best first; see `group_alike`."""
        known = {id: (row["digest"], _unsigned(row["fingerprint"])) for id, row in self._of(ids).items()}
        return group_alike([(id, *known.get(id, ("", None))) for id in ids])

    def _of(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return rows by id; an id that is not found may be that of a damaged page, so all are compared."""
        found: dict[str, dict[str, Any]] = {}
        for start in range(0, len(ids), _AT_ONCE):
            wanted = json.dumps(list(ids[start : start + _AT_ONCE]))
            rows = self._checked("photos", self._columns, _ONE_OF, (wanted,))
            found.update((row[0], dict(zip(self._columns, row, strict=True))) for row in rows)
        if not all(id in found for id in ids):
            self._check()
        return found

    def _checked(
        self, table: str, columns: Sequence[str], where: str = "true", values: Sequence[Any] = ()
    ) -> Iterator[tuple[Any, ...]]:
        """Yield rows, each of which is compared with its checksum if it has one."""
        names = ", ".join([*columns, "sum" if self._has_sums else "NULL"])
        for *row, wanted in self._rows(f"SELECT {names} FROM {table} WHERE {where}", values):
            if wanted is not None and wanted != row_sum(*row):
                raise self._damaged(f"the row {row[0]!r:.60} is not as it was written")
            yield tuple(row)

    def _all(self, question: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Ask about all rows; the whole file is compared before."""
        self._check()
        return self._rows(question, values)

    def _check(self) -> None:
        """Compare the file with its checksum, once; one that an update has just deleted is believed."""
        if self._wanted is None:
            return
        try:
            if checksum(self.file) != self._wanted:
                raise self._damaged("it was changed after it was written")
        except FileNotFoundError:
            pass
        except OSError as error:
            raise self._damaged(error) from None
        self._wanted = None

    def _damaged(self, why: object) -> CorruptIndex:
        return _unreadable(self.file, why)

    def _rows(self, question: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                return self._connection.ask(question, values)
        except sqlite3.ProgrammingError:  # it was closed
            raise
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from None

    def _list(self, stored: str) -> list[str]:
        if stored == "[]":  # as most are
            return []
        try:
            texts = parse_json(stored)
        except ValueError:
            texts = None
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise self._damaged(f"{stored!r:.60} is no list of texts")
        return texts

    def _path(self, root: int | None, file: str, member: str = "") -> str:
        if root is not None and root not in self._roots:
            raise self._damaged(f"it has no root {root!r}")
        path = file if root is None else f"{self._roots[root]}/{file}"
        return f"{path}/{member}" if member else path

    def _photo(self, row: dict[str, Any], lines: Mapping[str, tuple[TextLine, ...]]) -> Photo:
        if not all(isinstance(row.get(name), kind) for name, kind in TYPES.items()):  # SQLite keeps anything
            raise self._damaged(f"{row['id']!r:.60} is described in another form")
        root, file, member = row["root"], row["file"], row["member"]
        north, east = row.get("latitude"), row.get("longitude")  # older tables lack them
        place = None if north is None or east is None else (north, east)
        if place and not is_place(*place):
            raise self._damaged(f"{row['id']!r:.60} was taken at no place on Earth")
        captions, embedded, keywords = (self._list(row[k]) for k in ("captions", "embedded", "keywords"))
        return Photo(
            id=row["id"],
            path=self._path(root, file, member),
            file=self._path(root, file),
            offset=row["start"],
            captions=tuple(dict.fromkeys([*captions, *embedded])),
            keywords=tuple(keywords),
            fingerprint=_unsigned(row["fingerprint"]),
            text=lines.get(row["digest"], ()),
            place=place,
            state=row.get("state") or "",
            **{name: row[name] for name in ("size", "width", "height", "taken", "camera", "digest")},
        )


class OldPhotoTable(PhotoTable):
    """The photos of an index that was made without a table: only where they lie is known."""

    def __init__(self, index: Path, metadata: IndexHeader) -> None:
        self.index, self.metadata = index, metadata

    def close(self) -> None:
        pass

    def listed(self) -> dict[str, Listed]:
        return {}

    def unreadable(self) -> dict[str, Unreadable]:
        return {}

    def texts(self) -> tuple[list[str], list[str]]:
        return [], []

    def __len__(self) -> int:
        return self.metadata.documents

    def paths(self) -> dict[str, str]:
        paths: dict[str, str] = self.metadata.extra.get("paths", {})
        return paths

    def get(self, ids: Sequence[str]) -> list[Photo | None]:
        extra = self.metadata.extra
        if "paths" not in extra and "root" not in extra:
            return [Photo(id, id, id) for id in ids]
        return [self._at(id, locate(id, extra, self.index)) for id in ids]

    def _at(self, id: str, path: str) -> Photo | None:
        """Return a photo; None if no index can hold its id, which leads out of the folder of photos."""
        inside = not (PurePath(id).anchor or ".." in PurePath(id).parts)  # a root, or a drive of Windows
        there = id in self.paths() if self.paths() else inside
        return Photo(id, path, path) if there else None

    def dates_of(self, ids: Sequence[str]) -> list[Dated | None]:
        return [None] * len(ids)

    def places(self, ids: Sequence[str]) -> dict[str, tuple[float, float]]:
        return {}

    def located(self, filters: Filters) -> NDArray[np.float64]:
        return self._degrees([])

    def _cannot(self, what: str) -> DataError:
        """Return the error for what only a table of photos knows."""
        if self.metadata.kind == ANSERINI:
            return DataError(
                f"the index {self.index} is Anserini's, and knows nothing of its photos, so it cannot {what}:"
                " index them with `lexlip index FOLDER`"
            )
        return DataError(f"the index {self.index} is too old to {what}: index again without --update")

    def dates(self) -> list[Dated]:
        """Raise DataError: the index does not know dates."""
        raise self._cannot("list its photos")

    def select(self, filters: Filters) -> list[str]:
        """Raise DataError: the index does not know dates, folders, captions and places."""
        raise self._cannot("be filtered")

    def having(self, field: str, wanted: Sequence[Phrase]) -> list[str]:
        """Raise DataError: the index does not know the words that come with photos."""
        raise self._cannot(f"be asked for a {field}")

    def given_counts(self, wanted: Sequence[Phrase]) -> tuple[int, list[int]]:
        return 0, [0 for _ in wanted]

    def spelled_like(self, words: Sequence[str]) -> list[dict[str, int] | None]:
        return [None for _ in words]

    def lines(self, digests: Sequence[str] | None = None) -> dict[str, tuple[TextLine, ...]]:
        return {}

    def unread(self, reader: str = "") -> list[str]:
        return []

    def unreadable_texts(self) -> dict[str, str]:
        return {}

    def with_text(self) -> int:
        return 0

    @property
    def knows_names(self) -> bool:
        return False

    def given(
        self, wanted: Sequence[Phrase], weights: Sequence[float], number: int
    ) -> list[tuple[str, float]]:
        return []

    def same_name(self, id: str) -> list[str]:
        return []

    def facets(self) -> dict[str, Any]:
        none = dict.fromkeys(("dated", "by_file_time", "captioned", "located"), 0)
        return {"folders": [], "first": None, "last": None, **none}

    def send(self, id: str, folders: Sequence[str], tables: Mapping[str, str]) -> bytes:
        return read_as_indexed(self._place(id)[1], "", "", folders, sealed=False)

    def _place(self, id: str) -> tuple[Photo, Place]:
        photo, _ = super()._place(id)
        return photo, find_location(photo.path)

    def group(self, ids: Sequence[str]) -> list[list[str]]:
        return [[id] for id in ids]


def _unreadable(file: Path, why: object) -> CorruptIndex:
    return CorruptIndex(f"{file} cannot be read ({why}): build the index again")


def _unsigned(number: int | None) -> int | None:
    """Return 64 bits that SQLite keeps as a signed number."""
    return None if number is None else number & (2**64 - 1)


def _connect(file: Path) -> PlainTables:
    """Open a table that does not change any more; see `lexlip.retrieval.plain_tables.connect`."""
    path = str(file.absolute()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    address = f"file:{path}?mode=ro&immutable=1"
    connection = connect(address, uri=True, check_same_thread=False)
    connection.create_function("composed", 1, composed, deterministic=True)
    connection.create_function("file_date", 3, file_date, deterministic=True)
    connection.create_function("distance", 4, distance, deterministic=True)
    return connection


def _folders_above(id: str) -> Iterator[str]:
    end = id.rfind("/")
    while end > 0:
        yield id[:end]
        end = id.rfind("/", 0, end)
