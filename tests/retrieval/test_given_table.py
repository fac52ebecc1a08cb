"""The words that come with photos, as the table of photos has them, against plain Python."""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from lexlip.queries.query_language import FIELDS
from lexlip.retrieval.given_table import (
    GivenWordsTable,
    keys_of,
    packed,
    photos_with,
    shares,
    unpacked,
    write_given_words,
)
from lexlip.retrieval.given_words import phrases, texts_of
from lexlip.retrieval.plain_tables import COLUMNS, SCHEMA, TEXTS
from lexlip.retrieval.text_lines import TextLine, store_lines

PHOTOS = {
    "2019 Italy/IMG_0012.JPG": "a dog in rome",
    "2019 Italy/Day 2/boat.png": "",
    "Anna/birthday2019.jpg": "anna's cake; Anna",
    "Zoë/Straßenfest.webp": "",
    "scan.tif": "dog dogs",
    "日本/東京タワー.jpg": "हिंदी 서울",
}
LINES = {"Anna/birthday2019.jpg": ["EXIT", "Gate12"], "scan.tif": []}


@pytest.fixture
def table() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute(
        "CREATE TABLE photos (id TEXT PRIMARY KEY, words TEXT NOT NULL, digest TEXT, taken TEXT)"
    )
    rows = [(id, f" {' '.join(_words(said))} ", f"digest of {id}") for id, said in PHOTOS.items()]
    connection.executemany("INSERT INTO photos VALUES (?, ?, ?, NULL)", rows)
    connection.execute("CREATE TABLE texts (digest TEXT PRIMARY KEY, lines TEXT NOT NULL)")
    read = [(f"digest of {id}", store_lines(map(_line, lines))) for id, lines in LINES.items()]
    connection.executemany("INSERT INTO texts VALUES (?, ?)", read)
    yield connection
    connection.close()


def _words(text: str) -> list[str]:
    """The distinct words of a caption, as the table of photos has them."""
    return list(dict.fromkeys(text.lower().replace(";", " ").replace("'", " ").split()))


def _line(text: str) -> TextLine:
    return TextLine(text, (0, 0, 10, 0, 10, 10, 0, 10))


@pytest.mark.parametrize("times", [1, 2])
def test_lists_name_the_photos_that_plain_python_finds(table: sqlite3.Connection, times: int) -> None:
    for _ in range(times):
        write_given_words(table)
    ids = [id for _, id in sorted(table.execute("SELECT number, id FROM numbers"))]
    assert ids == sorted(PHOTOS)
    stored = {
        word: unpacked(data, len(ids)) for word, data in table.execute("SELECT word, photos FROM given")
    }
    for typed in (
        "dog",
        "2019",
        "birthday",
        "anna",
        "italy",
        "day",
        "strassenfest",
        "zoë",
        "jpg",
        "xyz",
        "हिंदी",
        "서울",
        "日",
        "exit",
        "gate",
    ):
        (phrase,) = phrases(typed)
        lists = {key: stored[key] for key in keys_of([phrase]) if key in stored}
        for field in FIELDS:
            wanted = [
                number
                for number, id in enumerate(ids)
                if phrase.is_in(texts_of(id, [" ".join(_words(PHOTOS[id]))], LINES.get(id, []))[field])
            ]
            assert photos_with(phrase, lists, [field]).tolist() == wanted, (typed, field)


def test_shares_are_sums_of_weights() -> None:
    lists = {"name dog": np.array([0, 2]), "caption dog": np.array([2, 3]), "folder cat": np.array([3])}
    sums = shares(phrases("dog cat bird"), [0.5, 0.3, 0.2], lists, 5)
    assert sums.tolist() == pytest.approx([0.5, 0, 0.5, 0.8, 0])


def test_no_photos_and_no_words(table: sqlite3.Connection) -> None:
    table.execute("DELETE FROM photos")
    write_given_words(table)
    assert table.execute("SELECT count(*) FROM given").fetchone() == (0,)


@pytest.mark.parametrize("numbers", [[0], [5], [0, 1, 2], [3, 70_000, 2**31]])
def test_packed_numbers_come_back(numbers: list[int]) -> None:
    assert unpacked(packed(np.array(numbers)), 2**32).tolist() == numbers


def test_damaged_lists_are_refused() -> None:
    data = packed(np.arange(100))
    for place in range(len(data)):
        with pytest.raises(ValueError, match="checksum"):
            unpacked(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :], 100)
    for stored, photos in ((b"", 100), (packed(np.array([5, 20])), 20)):
        with pytest.raises(ValueError, match="not there"):
            unpacked(stored, photos)
    bomb = packed(np.arange(10_000_000))  # small, and large once it is unpacked
    assert len(bomb) < 1_000_000
    assert unpacked(bomb, 1).tolist() == [0]


def test_slips_of_long_words_are_found() -> None:
    """Against the plain definition: one letter more, less, another, or two that changed places."""
    known = ["barcelona", "barcelonas", "watermelon", "lisbon", "2019", "anna"]
    table = _Table({f"{number}.jpg": word for number, word in enumerate(known)})
    wanted = {
        "barcelnoa": {"barcelona"},
        "barcelonna": {"barcelona"},
        "warermelon": {"watermelon"},
        "lisbn": None,  # short
        "lisboa": {"lisbon"},
        "watermelons": None,  # the other number of a noun
        "zzzzzz": set(),
    }
    found = table.spelled_like(list(wanted))
    table.connection.close()
    assert [None if one is None else set(one) for one in found] == list(wanted.values())


class _Table(GivenWordsTable):
    def __init__(self, captions: dict[str, str]) -> None:
        self.connection, self._size = sqlite3.connect(":memory:"), 10_000
        self.connection.executescript(SCHEMA + TEXTS)
        for id, said in captions.items():
            names = ", ".join(name for name in COLUMNS)
            row = [id if name == "id" else f" {said} " if name == "words" else 0 for name in COLUMNS]
            self.connection.execute(
                f"INSERT INTO photos ({names}) VALUES ({', '.join('?' * len(COLUMNS))})", row
            )
        write_given_words(self.connection)

    def _rows(self, question: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.connection.execute(question, values).fetchall()

    def _texts(self, ids: Sequence[str]) -> dict[str, Any]:
        return {}

    def _damaged(self, why: object) -> Exception:
        return ValueError(why)
