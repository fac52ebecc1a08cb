"""Photos that people named, against sums over their words in plain Python."""

import math
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import pytest

from anserini_bridge import CorruptIndex
from lexlip.data import open_source
from lexlip.data.facts import Facts
from lexlip.retrieval.given_words import Phrase, phrases
from lexlip.retrieval.photo_table import PhotoTable
from lexlip.search.named_photos import LEAST_NAMED, id_of_path, named_shares, phrases_of_path, respelled
from tests.data.pictures import jpeg, write
from tests.retrieval.test_photo_table import table

Form = Literal["NFC", "NFD"]

KEYWORDS = {
    "1.jpg": ("barcelona", "dog", "snow", "anna"),
    "2.jpg": ("dog", "snow"),
    "3.jpg": ("dog", "anna"),
    "4.jpg": ("dog",),
    "5.jpg": ("lisbon", "cat"),
}


@pytest.fixture
def photos(tmp_path: Path) -> Iterator[PhotoTable]:
    for name in KEYWORDS:
        write(tmp_path / "photos" / name, jpeg())
    source = open_source(tmp_path / "photos")
    facts = [Facts(keywords=KEYWORDS[item.id]) for item in source.items]
    with table(source, tmp_path / "index", facts) as made:
        yield made


def plain(words: tuple[str, ...], unknown: tuple[str, ...]) -> dict[str, float]:
    having = {word: [id for id, of in KEYWORDS.items() if word in of] for word in words}
    rare = {word: math.log(1 + len(KEYWORDS) / max(len(ids), 0.5)) for word, ids in having.items()}
    shares = {}
    for id, of in KEYWORDS.items():
        share = sum(rare[word] for word in words if word in of) / sum(rare.values())
        names = sum(rare[word] for word in words if word in of and word in unknown) / sum(rare.values())
        if share := share if share >= LEAST_NAMED else names:
            shares[id] = share
    return shares


@pytest.mark.parametrize("unknown", [(), ("anna",), ("Zorro",)])
@pytest.mark.parametrize("words", [("dog",), ("dog", "snow", "anna"), ("dog", "anna"), ("cat", "zorro")])
def test_shares_are_those_of_plain_sums(
    photos: PhotoTable, words: tuple[str, ...], unknown: tuple[str, ...]
) -> None:
    found = named_shares(photos, tuple(Phrase((word,)) for word in words), unknown)
    assert found == pytest.approx(plain(words, unknown))


def test_without_phrases_or_their_words_there_are_none(photos: PhotoTable) -> None:
    assert named_shares(photos, (), ["anna"]) == {}
    assert named_shares(photos, (Phrase(("zorro",)),), ["zorro"]) == {}


def test_a_slip_is_taken_for_the_nearest_word_and_what_was_typed_is_kept(photos: PhotoTable) -> None:
    slip = Phrase(("barcelnoa", "dog"))
    meant = Phrase(("barcelona", "dog"), typed=("barcelnoa", "dog"))
    assert respelled(photos, (slip,)) == (meant,)
    assert respelled(photos, (slip,), unknown=["dog"]) == (slip,)
    quoted = Phrase(("barcelnoa",), exact=True)
    assert respelled(photos, (quoted, Phrase(("lisbon",)))) == (quoted, Phrase(("lisbon",)))
    assert named_shares(photos, (meant,), []) == {}  # its words do not stand beside each other
    assert named_shares(photos, respelled(photos, (Phrase(("barcelnoa",)),)), ["barcelnoa"]) == {"1.jpg": 1.0}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("/home/me/photos/1.jpg", "1.jpg"),
        ("photos/1.jpg", "1.jpg"),
        ("./1.jpg", "1.jpg"),
        (" '/home/me/my photos/1.jpg'", "1.jpg"),
        ("file:///home/me/%70hotos/%31.jpg", "1.jpg"),
        ("/".join("a" * 5000) + "/1.jpg", "1.jpg"),
        (r"C:\Users\me\photos\1.jpg", "1.jpg"),
        ("https://example.com/photos/%31.jpg?size=3#top", "1.jpg"),
    ],
)
def test_a_path_is_that_of_a_photo_also_with_folders_above_the_index(
    text: str, meant: str, photos: PhotoTable
) -> None:
    assert id_of_path(photos, text) == meant


@pytest.mark.parametrize("on_disk", ["NFC", "NFD"])
@pytest.mark.parametrize("typed", ["NFC", "NFD"])
def test_a_path_is_that_of_a_photo_however_its_letters_are_composed(
    typed: Form, on_disk: Form, tmp_path: Path
) -> None:
    id = unicodedata.normalize(on_disk, "Été/Zürich.jpg")
    write(tmp_path / "photos" / id, jpeg())
    with table(open_source(tmp_path / "photos"), tmp_path / "index") as made:
        path = f"/home/me/{unicodedata.normalize(typed, id)}"
        assert id_of_path(made, path) == id
        assert id_of_path(made, f"file://{quote(path)}") == id


def test_to_look_for_a_path_the_table_is_not_read(
    photos: PhotoTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lexlip.retrieval.photo_table._SMALL", 0)
    with PhotoTable(tmp_path / "index", photos.file, "another checksum") as large:
        for text in ("open 24/7 in St. Ives", "/home/me/none.jpg"):
            assert id_of_path(large, text) is None
        assert id_of_path(large, "/home/me/photos/1.jpg") == "1.jpg"
        with pytest.raises(CorruptIndex):  # which reading it would have told
            large.get(["none.jpg"])


@pytest.mark.parametrize(
    "text", ["1.jpg", "a/dog", "a/b.jpg", "1.jpg/", "/", "a dog and/or a cat", "", "a/\0.jpg"]
)
def test_other_texts_are_no_paths(text: str, photos: PhotoTable) -> None:
    assert id_of_path(photos, text) is None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("/mnt/other/barcelona/dog.jpg", ["barcelona", '"dog jpg"']),
        (r"D:\camera\dog.jpg", ['"dog jpg"']),
        ("http://[::1]/a/dog.jpg?x=1", ['"dog jpg"']),
        ("/mnt/other/none.jpg", []),
        ("/a page" * 600 + "/dog.jpg", []),
        ("24/7 dog. jpg", []),
        ("dog.jpg", []),
    ],
)
def test_of_a_path_from_elsewhere_the_longest_end_counts_that_a_photo_has(
    text: str, wanted: list[str], tmp_path: Path
) -> None:
    write(tmp_path / "photos" / "Barcelona" / "A dog.jpg", jpeg())
    with table(open_source(tmp_path / "photos"), tmp_path / "index") as made:
        assert [str(phrase) for phrase in phrases_of_path(made, text)] == wanted


def test_a_date_names_the_photos_that_were_taken_then(tmp_path: Path) -> None:
    dates = {"1.jpg": "2019-07-04T12:30:00", "2.jpg": "2019-08-01T00:00:00", "IMG-20190704-WA0003.jpg": None}
    for name in (*dates, "none.jpg"):
        write(tmp_path / "photos" / name, jpeg())
    source = open_source(tmp_path / "photos")
    facts = [Facts(taken=dates.get(item.id)) for item in source.items]
    with table(source, tmp_path / "index", facts) as made:
        for typed, wanted in (
            ("July 2019", {"1.jpg", "IMG-20190704-WA0003.jpg"}),
            ("july 4th 2019", {"1.jpg", "IMG-20190704-WA0003.jpg"}),
            ("4 July 2019", {"1.jpg", "IMG-20190704-WA0003.jpg"}),
            ("5 July 2019", set()),
            ("2019-08-01", {"2.jpg"}),
            ("12:30", set()),
            ("2019", set(dates)),
        ):
            assert {
                id for id, share in named_shares(made, phrases(typed), []).items() if share > 0.99
            } == wanted
        assert respelled(made, phrases("augst feburary")) == phrases("augst feburary")
        assert respelled(made, phrases("auggust")) == (Phrase(("august",), typed=("auggust",)),)


def test_words_with_accents_count_as_they_were_typed(tmp_path: Path) -> None:
    captions = {"1.jpg": ("the bar",), "2.jpg": ("Ba\u0308r",), "thé.jpg": (), "4.jpg": ("bar dog",)}
    for name in captions:
        write(tmp_path / "photos" / name, jpeg())
    source = open_source(tmp_path / "photos")
    facts = [Facts(keywords=captions[item.id]) for item in source.items]
    accented = {"bar": "bär", "the": "thé"}
    with table(source, tmp_path / "index", facts) as photos:
        for word, id in (("bar", "2.jpg"), ("the", "thé.jpg")):
            assert len(named_shares(photos, (Phrase((word,)),), [])) > 1
            assert named_shares(photos, (Phrase((word,)),), [], accented) == {id: 1.0}
        both = Phrase(("bar",)), Phrase(("dog",))
        assert named_shares(photos, both, ["bar"], accented).keys() == {"2.jpg"}
        assert named_shares(photos, both, ["dog"], accented).keys() == {"4.jpg"}
