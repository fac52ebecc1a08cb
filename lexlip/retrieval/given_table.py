"""The words that come with photos, as the table of photos has them: written, and asked about.

There are two tables for it: `numbers` gives photos numbers, in the order of their ids; `given` has for each
word of each field ("folder italy") the numbers of its photos: a CRC-32 of all that follows, in 4 bytes, and
the differences between the numbers, compressed by zlib. Indexes of older versions lack both.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lexlip.errors import DataError
from lexlip.queries.query_language import FIELDS, edit_distances
from lexlip.retrieval.given_words import TAKEN, Phrase, Texts, cut_words, date_words, split_words
from lexlip.retrieval.text_lines import stored_lines
from lexlip.words.file_names import date_in

GIVEN = (*FIELDS, TAKEN)

Lists = Mapping[str, NDArray[np.int64]]
"""Ascending numbers of photos, by the word of a field that they have."""

TABLES = (
    "DROP TABLE IF EXISTS numbers",
    "DROP TABLE IF EXISTS given",
    "CREATE TABLE numbers (number INTEGER PRIMARY KEY, id TEXT NOT NULL)",
    "CREATE TABLE given (word TEXT PRIMARY KEY, photos BLOB NOT NULL) WITHOUT ROWID",
)
HAS_TABLES = "SELECT 1 FROM sqlite_master WHERE name = 'given'"

FEWEST_LETTERS = 6  # of a word that may be misspelled


class GivenWordsTable(ABC):
    """The part of a table of photos that knows the words that come with them; several threads may use it."""

    _size: int  # of the file, in bytes
    _last_given: tuple[tuple[Phrase, ...], tuple[Lists, int]] = (), ({}, 0)

    @abstractmethod
    def _rows(self, question: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Ask SQLite."""

    @abstractmethod
    def _texts(self, ids: Sequence[str]) -> Mapping[str, Texts]:
        """Return the texts of photos, by id; see `lexlip.retrieval.given_words.texts_of`."""

    @abstractmethod
    def _damaged(self, why: object) -> Exception:
        """Return the error to raise."""

    @property
    def knows_names(self) -> bool:
        """Whether it has the words that come with photos; those of older versions lack them."""
        return bool(self._rows(HAS_TABLES))

    def given_counts(self, wanted: Sequence[Phrase]) -> tuple[int, list[int]]:
        """Return the number of photos, and of those that have each phrase's words in one field."""
        lists, photos = self._lists(wanted)
        return photos, [len(photos_with(phrase, lists)) for phrase in wanted]

    def spelled_like(self, words: Sequence[str]) -> list[dict[str, int] | None]:
        """Return for each of some words what it may be a slip of: words that are one slip of a letter away.

        Returns:
            Such words; of the number of each, it matters only which is the largest: that of the word of the
            most photos. None if photos have the word itself, or if it is short.
        """
        lists, _ = self._lists(tuple(Phrase((word,)) for word in words))
        known = [len(word) < FEWEST_LETTERS or len(photos_with(Phrase((word,)), lists)) for word in words]
        return [None if has else self._spelled_like(word) for word, has in zip(words, known, strict=True)]

    def _spelled_like(self, word: str) -> dict[str, int]:
        found: Counter[str] = Counter()
        if self.knows_names:
            for field in GIVEN:
                start = len(field) + 1
                question = (
                    "SELECT word, coalesce(length(photos), 0) FROM given WHERE word > ? AND word < ?"
                    " AND length(word) BETWEEN ? AND ?"
                )
                lengths = start + len(word) - 1, start + len(word) + 1
                rows = self._rows(question, [f"{field} :", f"{field}!", *lengths])  # numbers are before ":"
                found.update({key[start:]: int(size) for key, size in rows})
        others = list(found)
        near = np.flatnonzero(edit_distances(word, others) <= 1) if others else ()
        return {others[place]: found[others[place]] for place in near}

    def having(self, field: str, wanted: Sequence[Phrase]) -> list[str]:
        """Return the photos that have all of some phrases in one field.

        DataError: the table does not know the words that come with photos.
        """
        if not self.knows_names:
            raise DataError(f"the index is too old for {field}: run `lexlip index` again with its photos")
        lists, _ = self._lists(wanted)
        each = [photos_with(phrase, lists, [field]) for phrase in wanted]
        ids = list(self._ids(reduce(np.intersect1d, each)).values())
        if all(len(phrase.words) == 1 for phrase in wanted):
            return ids
        found = self._texts(ids)
        return [id for id, texts in found.items() if all(phrase.is_in(texts[field]) for phrase in wanted)]

    def given(
        self, wanted: Sequence[Phrase], weights: Sequence[float], number: int
    ) -> list[tuple[str, float]]:
        """Return the photos that have the most of some phrases, at most so many.

        Returns:
            Their ids with the sums of the weights of their phrases, the largest first.
        """
        lists, photos = self._lists(wanted)
        sums = shares(wanted, weights, lists, photos)
        found = np.flatnonzero(sums)
        best = found[np.argsort(-sums[found], kind="stable")[:number]]
        ids = self._ids(best)
        named = [(ids[one], float(sums[one])) for one in best.tolist() if one in ids]
        if all(len(phrase.words) == 1 for phrase in wanted):
            return named
        exact = []  # words of a phrase may stand in a text, but not beside each other
        for id, texts in self._texts([id for id, _ in named]).items():
            exact.append((id, float(np.dot(weights, [bool(phrase.fields_in(texts)) for phrase in wanted]))))
        return sorted(((id, sum) for id, sum in exact if sum), key=lambda one: -one[1])

    def _ids(self, numbers: NDArray[np.int64]) -> dict[int, str]:
        """Return the ids of photos by their numbers."""
        question = "SELECT number, id FROM numbers WHERE number IN (SELECT value FROM json_each(?))"
        ids = dict(self._rows(question, [json.dumps(numbers.tolist())]))
        if not all(isinstance(id, str) for id in ids.values()):  # SQLite keeps anything
            raise self._damaged("an id is no text")
        return ids

    def _lists(self, wanted: Sequence[Phrase]) -> tuple[Lists, int]:
        """Return the lists of photos that some phrases need, by word, and the number of photos.

        Those of one query are kept for the next question about it.
        """
        asked, found = self._last_given
        if asked != tuple(wanted):
            found = self._read_lists(wanted)
            self._last_given = tuple(wanted), found
        return found

    def _read_lists(self, wanted: Sequence[Phrase]) -> tuple[Lists, int]:
        if not self.knows_names:
            return {}, 0
        ((last,),) = self._rows("SELECT max(number) FROM numbers")
        photos = 0 if last is None else last + 1
        if photos > self._size:
            raise self._damaged(f"it numbers {photos} photos")
        rows = self._rows(
            "SELECT word, photos FROM given WHERE word IN (SELECT value FROM json_each(?))",
            [json.dumps(keys_of(wanted))],
        )
        try:
            return {word: unpacked(stored, photos) for word, stored in rows}, photos
        except (ValueError, TypeError, zlib.error) as error:
            raise self._damaged(error) from None


def write_given_words(connection: sqlite3.Connection) -> None:
    """Write both tables anew, from those of photos and of texts."""
    for statement in TABLES:
        connection.execute(statement)
    from array import array

    words: dict[str, int] = {}
    columns, numbers = array("q"), array("q")
    folders = lru_cache(maxsize=1024)(lambda folder: _keys("folder", cut_words(folder)))
    days = lru_cache(maxsize=4096)(lambda day: _keys(TAKEN, date_words(day)))
    lines = dict(connection.execute("SELECT digest, lines FROM texts"))
    rows = connection.execute("SELECT id, words, digest, taken FROM photos ORDER BY id").fetchall()
    for number, (id, said, digest, taken) in enumerate(rows):
        folder, _, name = id.rpartition("/")
        keys = [*_keys("caption", [split_words(said)]), *_keys("name", cut_words(name)), *folders(folder)]
        if digest in lines:
            read = " ".join(line.text for line in stored_lines(lines[digest]))
            keys += _keys("text", cut_words(read))
        if date := taken or date_in(id):
            keys += days(date[:10])
        for key in keys:
            columns.append(words.setdefault(key, len(words)))
            numbers.append(number)
    connection.executemany("INSERT INTO numbers VALUES (?, ?)", ((n, id) for n, (id, *_) in enumerate(rows)))
    of_word, of_photo = np.frombuffer(columns, np.int64), np.frombuffer(numbers, np.int64)
    order = np.argsort(of_word, kind="stable")
    ends = np.cumsum(np.bincount(of_word, minlength=len(words)))
    lists = np.split(of_photo[order], ends[:-1]) if words else []
    connection.executemany("INSERT INTO given VALUES (?, ?)", zip(words, map(packed, lists), strict=True))


def packed(numbers: NDArray[np.int64]) -> bytes:
    """Return ascending numbers of photos as the table stores them."""
    data = zlib.compress(np.diff(numbers, prepend=0).astype("<u4").tobytes(), 1)
    return zlib.crc32(data).to_bytes(4, "little") + data


def unpacked(stored: bytes, photos: int) -> NDArray[np.int64]:
    """Return what `packed` was given, of so many photos; ValueError: it is damaged."""
    data = stored[4:]
    if zlib.crc32(data) != int.from_bytes(stored[:4], "little"):
        raise ValueError("its checksum is wrong")
    differences = zlib.decompressobj().decompress(data, 4 * photos)
    numbers = np.cumsum(np.frombuffer(differences, "<u4"), dtype=np.int64)
    if not len(numbers) or numbers[-1] >= photos:
        raise ValueError("it names photos that are not there")
    return numbers


def shares(
    wanted: Sequence[Phrase], weights: Sequence[float], lists: Mapping[str, NDArray[np.int64]], photos: int
) -> NDArray[np.float32]:
    """Return for each photo the sum of the weights of the phrases that it has, [photos]."""
    sums = np.zeros(photos, np.float32)
    for phrase, weight in zip(wanted, weights, strict=True):
        sums[photos_with(phrase, lists)] += weight
    return sums


def keys_of(wanted: Sequence[Phrase]) -> list[str]:
    """Return the words of the table that some phrases need."""
    words = {way for one in wanted for ways in one.spellings() for way in ways}
    return [f"{name} {word}" for name in GIVEN for word in sorted(words)]


def photos_with(
    phrase: Phrase, lists: Mapping[str, NDArray[np.int64]], fields: Sequence[str] = GIVEN
) -> NDArray[np.int64]:
    """Return the numbers, ascending, of the photos that have all words of a phrase in one field."""
    return _union([_in_field(phrase, lists, name) for name in fields if name != TAKEN or phrase.dates])


def _in_field(phrase: Phrase, lists: Mapping[str, NDArray[np.int64]], name: str) -> NDArray[np.int64]:
    keys = ([f"{name} {way}" for way in ways] for ways in phrase.spellings())
    each = [_union([lists[key] for key in of_word if key in lists]) for of_word in keys]
    found = each[0]
    for other in each[1:]:
        found = np.intersect1d(found, other, assume_unique=True)
    return found


def _union(lists: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the numbers of ascending lists as one."""
    some = [one for one in lists if len(one)]
    if len(some) < 2:
        return some[0] if some else np.empty(0, np.int64)
    joined = np.sort(np.concatenate(some))
    return joined[np.diff(joined, prepend=-1) > 0]  # np.unique would load numpy.ma


def _keys(name: str, texts: Iterable[Iterable[str]]) -> list[str]:
    return [f"{name} {word}" for word in dict.fromkeys(word for text in texts for word in text)]
