import pickle
import re
from pathlib import Path

import pytest

from lexlip.config import SourceConfig
from lexlip.data import Item, Skipped, open_source
from lexlip.data.further_captions import FurtherCaptions
from lexlip.data.open import open_sources
from lexlip.errors import DataError

from .pictures import jpeg, write, write_tar

GERMAN = "a.jpg\t0\tein  Hund\nb.jpg\t0\teine Katze, schläft\nelsewhere.jpg\t0\tein Boot\n"
FRENCH = "image,caption\ndeep/c.jpg,un bateau\ndeep/c.jpg,le bateau\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tar of a.jpg and b.jpg, of which the first has a caption, a folder with c.jpg, and tables."""
    monkeypatch.chdir(tmp_path)
    write_tar(tmp_path / "p.tar", {"a.jpg": jpeg(), "a.txt": b"a dog", "b.jpg": jpeg((30, 20))})
    write(tmp_path / "folder" / "c.jpg", jpeg())
    write(tmp_path / "de.tsv", GERMAN)
    write(tmp_path / "fr.csv", FRENCH)
    return tmp_path


def test_captions_follow_those_that_photos_have(here: Path) -> None:
    source = FurtherCaptions(open_source("p.tar"), ["de.tsv", "de.tsv"])
    assert source.items == [
        Item("p.tar/a.jpg", ("a dog", "ein Hund", "ein Hund")),
        Item("p.tar/b.jpg", ("eine Katze, schläft", "eine Katze, schläft")),
    ]
    assert source.captioned().tolist() == [0, 1]
    assert source.skipped == [Skipped("de.tsv", "1 of its 3 photos are not in p.tar")] * 2
    plain = open_source("p.tar")
    assert (source.name, len(source)) == ("p.tar", 2)
    for index in range(2):
        assert source.read(index) == plain.read(index)
        assert source.path(index) == plain.path(index)
        assert source.file(index) == plain.file(index)
        assert source.image(index).size == plain.image(index).size
    assert pickle.loads(pickle.dumps(source)).items == source.items


def test_a_config_names_them(here: Path) -> None:
    source = open_sources(
        [SourceConfig("p.tar", captions=("de.tsv",)), SourceConfig("folder", captions=("fr.csv",))]
    )
    assert [item.captions for item in source.items] == [
        ("a dog", "ein Hund"),
        ("eine Katze, schläft",),
        ("un bateau", "le bateau"),
    ]
    assert source.captioned().tolist() == [0, 1, 2]


def test_photos_without_any_caption_stay_so(here: Path) -> None:
    write(here / "one.tsv", "a.jpg\tein Hund\nb.jpg\t \n")
    source = FurtherCaptions(open_source("p.tar"), ["one.tsv"])
    assert [item.captions for item in source.items] == [("a dog", "ein Hund"), ()]
    assert source.captioned().tolist() == [0]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("gone.tsv", "gone.tsv cannot be read: No such file or directory"),
        ("p.tar", "p.tar is no table of captions: its name must end in .tsv, .csv, .txt"),
        ("fr.csv", "none of the 1 photos that fr.csv names is in p.tar (the first is deep/c.jpg)"),
    ],
)
def test_what_cannot_be_used(here: Path, table: str, says: str) -> None:
    with pytest.raises(DataError, match=f"^{re.escape(says)}$"):
        FurtherCaptions(open_source("p.tar"), [table])


def test_two_photos_of_one_name(here: Path) -> None:
    write(here / "folder" / "deep" / "c.jpg", jpeg())
    source = FurtherCaptions(open_source("folder"), ["fr.csv"])
    assert {item.id: item.captions for item in source.items} == {
        "c.jpg": (),
        "deep/c.jpg": ("un bateau", "le bateau"),
    }
    write(here / "folder" / "high" / "c.jpg", jpeg())
    write(here / "both.tsv", "high/c.jpg\tone\nother/c.jpg\ttwo\ndeep/c.jpg\tthree\n")
    unclear = "1 of its 3 photos are not in folder, or not clear (other/c.jpg: it may be "
    (skipped,) = FurtherCaptions(open_source("folder"), ["both.tsv"]).skipped
    assert skipped.reason == f"{unclear}c.jpg or deep/c.jpg: give more of its path)"
