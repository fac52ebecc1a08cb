"""The words that people gave photos: in captions and keywords, in names of files, and in those of folders.

A search finds by them what no picture shows: "Anna", "italy 2019", "cc_00111.jpg". The table of photos has
two tables for it: `numbers` gives photos numbers, in the order of their ids; `given` has for each word of
each field ("folder italy") the numbers of its photos: a CRC-32 of all that follows, in 4 bytes, and the
differences between the numbers, compressed by zlib. Indexes of older versions lack both.
"""

from __future__ import annotations

import re
import sqlite3
import zlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lexlip.queries.query_language import FIELDS, forms
from lexlip.words.function_words import FUNCTION_WORDS
from lexlip.words.plain_text import folded, words_in

TABLES = (
    "DROP TABLE IF EXISTS numbers",
    "DROP TABLE IF EXISTS given",
    "CREATE TABLE numbers (number INTEGER PRIMARY KEY, id TEXT NOT NULL)",
    "CREATE TABLE given (word TEXT PRIMARY KEY, photos BLOB NOT NULL) WITHOUT ROWID",
)
HAS_TABLES = "SELECT 1 FROM sqlite_master WHERE name = 'given'"

MOST_PHRASES = 64  # of a query: somebody may paste a whole text

_QUOTED = re.compile(r'["“]([^"“”]*)["”]|(\S+)')
_PARTS = re.compile(r"\d+|[^\W\d_]+")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff]")  # Japanese and Chinese: no spaces between words
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True)
class Phrase:
    """Words that must stand beside each other in one text; one word is the rule.

    Attributes:
        words: as `lexlip.words.plain_text.folded` has them; of Japanese and Chinese each letter is one.
        exact: was in quotes, so other numbers of a noun do not count.
    """

    words: tuple[str, ...]
    exact: bool = False

    def __str__(self) -> str:
        """Return it as a query has it behind a field."""
        text = re.sub(rf"(?<={_UNSPACED.pattern}) (?={_UNSPACED.pattern})", "", " ".join(self.words))
        return f'"{text}"' if " " in text else text

    def spellings(self) -> list[tuple[str, ...]]:
        """Return for each word how it may be spelled."""
        return [(word,) if self.exact else forms(word) for word in self.words]

    def is_in(self, texts: Iterable[Sequence[str]]) -> bool:
        """Return whether one of some texts, each given by its words, has the words beside each other."""
        spellings = self.spellings()
        size = len(spellings)
        return any(
            all(text[start + place] in ways for place, ways in enumerate(spellings))
            for text in texts
            for start in range(len(text) - size + 1)
        )


def phrases(text: str) -> tuple[Phrase, ...]:
    """Return what of a query may stand in names and captions.

    Function words count only where nothing else was typed. What is in quotes is one phrase, and so is what
    has no space in it ("cc_00111.jpg", "t-shirt"), except for the folders of a path. The first 64 count.
    """
    found: list[Phrase] = []
    for quoted, typed in _QUOTED.findall(text):
        if quoted:
            found.append(Phrase(tuple(_words(quoted)), exact=True))
        else:
            found += [Phrase(tuple(_words(part))) for part in typed.split("/")]
    found = [one for one in found if one.words]
    content = [one for one in found if one.exact or not FUNCTION_WORDS.issuperset(one.words)]
    return tuple(dict.fromkeys(content or found))[:MOST_PHRASES]


def texts_of(id: str, captions: Iterable[str]) -> dict[str, list[list[str]]]:
    """Return the texts that people gave a photo, captions and keywords too, by field, each as its words."""
    folder, _, name = id.rpartition("/")
    return {"caption": [*map(_words, captions)], "name": _of_path(name), "folder": _of_path(folder)}


def phrases_in(texts: Mapping[str, Sequence[Sequence[str]]], wanted: Iterable[Phrase]) -> list[str]:
    """Return which phrases the texts of a photo have, each with its first field: name:anna, name:"img 1"."""
    found = {one: next((name for name in FIELDS if one.is_in(texts[name])), None) for one in wanted}
    return [f"{name}:{one}" for one, name in found.items() if name is not None]


def write_given_words(connection: sqlite3.Connection) -> None:
    """Write both tables anew, from the table of photos."""
    for statement in TABLES:
        connection.execute(statement)
    words: dict[str, int] = {}
    columns, numbers = array("q"), array("q")
    folders = lru_cache(maxsize=1024)(lambda folder: _keys("folder", _of_path(folder)))
    rows = connection.execute("SELECT id, words FROM photos ORDER BY id").fetchall()
    for number, (id, said) in enumerate(rows):
        folder, _, name = id.rpartition("/")
        for key in (*_keys("caption", [_words(said)]), *_keys("name", _of_path(name)), *folders(folder)):
            columns.append(words.setdefault(key, len(words)))
            numbers.append(number)
    connection.executemany("INSERT INTO numbers VALUES (?, ?)", ((n, id) for n, (id, _) in enumerate(rows)))
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
    return [f"{name} {word}" for name in FIELDS for word in sorted(words)]


def photos_with(
    phrase: Phrase, lists: Mapping[str, NDArray[np.int64]], fields: Sequence[str] = FIELDS
) -> NDArray[np.int64]:
    """Return the numbers, ascending, of the photos that have all words of a phrase in one field."""
    return _union([_in_field(phrase, lists, name) for name in fields])


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
    return np.unique(np.concatenate(some))


def _of_path(path: str) -> list[list[str]]:
    """Return the words of a name or of folders: as they stand, and cut between letters, digits and humps."""
    texts = [_words(path)]
    if (cut := _words(" ".join(_PARTS.findall(_HUMP.sub(" ", path))))) != texts[0]:
        texts.append(cut)
    return texts


def _keys(name: str, texts: Iterable[Iterable[str]]) -> list[str]:
    return [f"{name} {word}" for word in dict.fromkeys(word for text in texts for word in text)]


def _words(text: str) -> list[str]:
    return words_in(_UNSPACED.sub(r" \g<0> ", folded(text)))
