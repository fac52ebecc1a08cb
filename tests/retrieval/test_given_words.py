"""Names, folders, captions and keywords as the table of photos has them, against plain Python."""

import sqlite3
from collections.abc import Iterator

import numpy as np
import pytest

from lexlip.queries.query_language import FIELDS
from lexlip.retrieval.given_words import (
    MOST_PHRASES,
    Phrase,
    keys_of,
    packed,
    photos_with,
    phrases,
    phrases_in,
    shares,
    texts_of,
    unpacked,
    write_given_words,
)

PHOTOS = {
    "2019 Italy/IMG_0012.JPG": "a dog in rome",
    "2019 Italy/Day 2/boat.png": "",
    "Anna/birthday2019.jpg": "anna's cake; Anna",
    "Zoë/Straßenfest.webp": "",
    "scan.tif": "dog dogs",
    "日本/東京タワー.jpg": "हिंदी 서울",
}


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("a dog on the beach", ["dog", "beach"]),
        ("the who", ["the", "who"]),  # nothing but function words
        ("cc_00111.jpg", ['"cc 00111 jpg"']),
        ("2019/italy", ["2019", "italy"]),
        ('"exit 12" sign', ['"exit 12"', "sign"]),
        ("“on the road” DOG", ['"on the road"', "dog"]),
        ("dog dog ... !", ["dog"]),
        ("STRASSE straße", ["strasse"]),
        ("ﬁsh", ["fish"]),
        ('"" " "', []),
        ('a 12" pizza', ["12", "pizza"]),
        ("日本 tower", ["日本", "tower"]),
        ("ÉTÉ Übersee", ["ete", "ubersee"]),
    ],
)
def test_phrases_of_a_query(typed: str, wanted: list[str]) -> None:
    assert [str(one) for one in phrases(typed)] == wanted


def test_of_a_pasted_text_the_beginning_counts() -> None:
    text = " ".join(f"word{number}" for number in range(100_000))
    assert [str(one) for one in phrases(text)] == text.split()[:MOST_PHRASES]


def test_a_phrase_stands_in_one_text_as_it_was_typed() -> None:
    texts = [["three", "dogs", "run"], ["exit", "12"]]
    assert Phrase(("dog",)).is_in(texts)  # the other number of a noun
    assert not Phrase(("dog",), exact=True).is_in(texts)
    assert Phrase(("dog", "run")).is_in(texts)
    assert Phrase(("exit", "12"), exact=True).is_in(texts)
    assert not Phrase(("12", "exit")).is_in(texts)
    assert not Phrase(("run", "exit")).is_in(texts)
    assert not Phrase(("dog",)).is_in([])


def test_texts_of_a_photo_by_field() -> None:
    texts = texts_of("Trips/RomeDay2/IMG_0012.JPG", ["A dog's day", "pets"])
    assert texts["caption"] == [["a", "dog", "s", "day"], ["pets"]]
    assert texts["name"] == [["img", "0012", "jpg"]]
    assert texts["folder"] == [["trips", "romeday2"], ["trips", "rome", "day", "2"]]
    found = phrases_in(texts, phrases("rome IMG_0012 pet cat trips"))
    assert found == ["folder:rome", 'name:"img 0012"', "caption:pet", "folder:trips"]


@pytest.fixture
def table() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE photos (id TEXT PRIMARY KEY, words TEXT NOT NULL)")
    rows = [(id, f" {' '.join(_words(said))} ") for id, said in PHOTOS.items()]
    connection.executemany("INSERT INTO photos VALUES (?, ?)", rows)
    yield connection
    connection.close()


def _words(text: str) -> list[str]:
    """The distinct words of a caption, as the table of photos has them."""
    return list(dict.fromkeys(text.lower().replace(";", " ").replace("'", " ").split()))


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
    ):
        (phrase,) = phrases(typed)
        lists = {key: stored[key] for key in keys_of([phrase]) if key in stored}
        for field in FIELDS:
            wanted = [
                number
                for number, id in enumerate(ids)
                if phrase.is_in(texts_of(id, [" ".join(_words(PHOTOS[id]))])[field])
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
