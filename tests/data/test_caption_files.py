import json
import pickle
import random
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from lexlip.config import SourceConfig
from lexlip.data import Item, Skipped, open_source
from lexlip.data.caption_files import FurtherTexts, NamedPhotos, read_captions_alone
from lexlip.data.open import open_sources
from lexlip.errors import DataError
from tests.data.pictures import jpeg, write, write_tar

TABLE = "a/1.jpg\tfirst\nb/1.jpg\tsecond\n"


def found(names: list[str], paths: list[str], whole: bool = False) -> dict[str, str | None]:
    photos = NamedPhotos[str](names)
    for path in paths:
        photos.add(path, path, whole)
    return {name: photos.find(name)[0] for name in names}


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("1.jpg", None),  # which of the three
        ("a/1.jpg", "p/a.tar/1.jpg"),
        ("a.tar/1.jpg", "p/a.tar/1.jpg"),
        ("./p//b/1.jpg", "p/b.tar/1.jpg"),
        ("deep/c/1.jpg", "p/b.tar/c/1.jpg"),
        ("x/1.jpg", None),
        ("val2014/2.jpg", "p/a.tar/2.jpg"),  # the only one of this file name
        ("3.jpg", None),
        ("Été/é.jpg", unicodedata.normalize("NFD", "p/Été.tar/é.jpg")),
    ],
)
def test_the_path_decides(name: str, path: str | None) -> None:
    nfd = unicodedata.normalize("NFD", "p/Été.tar/é.jpg")
    paths = ["p/a.tar/1.jpg", "p/b.tar/1.jpg", "p/b.tar/c/1.jpg", "p/a.tar/2.jpg", nfd]
    assert found([name], paths) == {name: path}


def test_one_photo_is_not_two_names_by_its_file_name_alone() -> None:
    assert found(["a/1.jpg", "b/1.jpg"], ["1.jpg"]) == {"a/1.jpg": None, "b/1.jpg": None}
    assert found(["a/1.jpg", "b/1.jpg"], ["a.tar/1.jpg"]) == {"a/1.jpg": "a.tar/1.jpg", "b/1.jpg": None}
    assert found(["1.jpg", "a.tar/1.jpg"], ["a.tar/1.jpg"]) == {
        "1.jpg": "a.tar/1.jpg",  # both name it by their whole path
        "a.tar/1.jpg": "a.tar/1.jpg",
    }


def test_of_a_folder_names_end_with_the_whole_path() -> None:
    names = ["1.jpg", "z/2.jpg", "data/x/3.jpg"]
    assert found(names, ["x/1.jpg", "2.jpg", "x/3.jpg"], whole=True) == {
        "1.jpg": None,
        "z/2.jpg": "2.jpg",
        "data/x/3.jpg": "x/3.jpg",
    }


def test_whole_paths_are_found_among_any_others() -> None:
    rng = random.Random(0)
    paths = list({"/".join(rng.choices("abcé", k=rng.randint(1, 4))) + "/1.jpg" for _ in range(100)})
    assert found(paths, paths) == {path: path for path in paths}


def test_the_same_name_in_two_tars(tmp_path: Path) -> None:
    for number, name in enumerate(("a", "b")):
        write_tar(tmp_path / "photos" / f"{name}.tar", {"1.jpg": jpeg((8, 8 + number))})
    source = open_source(write(tmp_path / "t.tsv", TABLE), images=tmp_path / "photos")
    assert source.items == [Item("a/1.jpg", ("first",)), Item("b/1.jpg", ("second",))]
    assert [source.image(number).size for number in range(2)] == [(8, 8), (8, 9)]
    source = open_source(write(tmp_path / "t.tsv", f"{TABLE}c/1.jpg\tthird\n"), images=tmp_path / "photos")
    why = "it may be a.tar/1.jpg or b.tar/1.jpg: give more of its path"
    assert source.skipped == [Skipped("c/1.jpg", why)]


def test_a_photo_that_may_be_two_rows(tmp_path: Path) -> None:
    write(tmp_path / "1.jpg", jpeg())
    table = write(tmp_path / "t.tsv", TABLE)
    why = f"none of the 2 photos that {table} names is in {tmp_path} (the first is a/1.jpg: not there, and"
    with pytest.raises(DataError, match=re.escape(f"{why} 1.jpg may be b/1.jpg as well)")):
        open_source(table)
    write(tmp_path / "2.jpg", jpeg())
    many = "".join(f"{folder}/{name}.jpg\tx\n" for folder in "abcdef" for name in (1, 2))
    source = open_source(write(table, f"2.jpg\ta dog\n{many}"))
    assert source.items == [Item("2.jpg", ("a dog",))]
    line = "12 of its 13 photos may be several, such as a/1.jpg (not there, and 1.jpg may be b/1.jpg as well)"
    assert source.skipped == [Skipped(str(table), line)]


def test_rows_of_another_split_count(tmp_path: Path) -> None:
    write(tmp_path / "1.jpg", jpeg())
    table = write(tmp_path / "t.tsv", "image\tcaption\tsplit\na/1.jpg\tx\ttrain\nb/1.jpg\ty\tval\n")
    with pytest.raises(DataError, match=r"1\.jpg may be a/1\.jpg as well"):
        open_source(table, split="val")


def test_names_that_are_composed_otherwise(tmp_path: Path) -> None:
    on_disk = unicodedata.normalize("NFD", "Été/Zürich.jpg")
    write(tmp_path / on_disk, jpeg())
    source = open_source(write(tmp_path / "t.tsv", "Été/Zürich.jpg\ta round thing\n"))
    assert source.items == [Item("Été/Zürich.jpg", ("a round thing",))]
    assert source.path(0) == f"{tmp_path}/{on_disk}"
    assert source.read(0) == jpeg()


def image(filename: str, split: str, *captions: str, **more: Any) -> dict[str, Any]:
    return {"filename": filename, "split": split, "sentences": [{"raw": text} for text in captions], **more}


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    images = [
        image("a.jpg", "train", "a dog", " two  dogs "),
        image("b.jpg", "restval", "a cat"),
        image("c.jpg", "val", "a bird"),
        image("gone.jpg", "val", "nothing"),
        image("d.jpg", "test", filepath="val2014"),
    ]
    for number, name in enumerate(("a.jpg", "b.jpg", "c.jpg", "val2014/d.jpg")):
        write(tmp_path / "photos" / name, jpeg((40, 30 + number)))
    return write(tmp_path / "dataset.json", json.dumps({"images": images}))


def test_photos_in_a_folder_and_its_tars(dataset: Path) -> None:
    photos = dataset.parent / "photos"
    write_tar(photos / "more.tar", {"gone.jpg": jpeg((7, 7))})
    write(photos / "backup.tar", "no tar at all")
    source = open_source(dataset, images=photos, split="val")
    assert [item.id for item in source.items] == ["c.jpg", "gone.jpg"]
    assert source.image(1).size == (7, 7)
    assert [skipped.id for skipped in source.skipped] == ["backup.tar"]


def test_tars_that_hold_no_photos_do_no_harm(dataset: Path) -> None:
    photos = dataset.parent / "photos"
    write(photos / "backup.tar", "no tar at all")
    assert len(open_source(dataset, images=photos)) == 4


def test_many_missing_photos_are_one_line(two_photos: Path) -> None:
    rows = "a.jpg\ta dog\n" + "".join(f"gone{number:02}.jpg\ta cat\n" for number in range(11))
    table = write(two_photos / "t.tsv", rows)
    why = f"11 of its 12 photos are not in {two_photos}, such as gone00.jpg"
    assert open_source(table).skipped == [Skipped(str(table), why)]
    table.write_text(rows[: rows.index("gone10")])
    assert open_source(table).skipped == [Skipped(f"gone{n:02}.jpg", "no such file") for n in range(10)]


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
    source = FurtherTexts(open_source("p.tar"), ["de.tsv", "de.tsv"])
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


def test_words_are_apart_from_captions(here: Path) -> None:
    source = open_sources(
        [SourceConfig("p.tar", captions=("de.tsv",), words=("de.tsv",)), SourceConfig("folder")]
    )
    plain, photo = source.items[:2], source.items[2]
    assert [item.words for item in plain] == [("ein Hund",), ("eine Katze, schläft",)]
    assert [item.captions for item in plain] == [("a dog", "ein Hund"), ("eine Katze, schläft",)]
    assert not photo.words
    tagged = FurtherTexts(open_source("p.tar"), (), ["de.tsv"])
    assert [item.captions for item in tagged.items] == [item.captions for item in open_source("p.tar").items]
    assert tagged.captioned().tolist() == open_source("p.tar").captioned().tolist()


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
    source = FurtherTexts(open_source("p.tar"), ["one.tsv"])
    assert [item.captions for item in source.items] == [("a dog", "ein Hund"), ()]
    assert source.captioned().tolist() == [0]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("gone.tsv", "gone.tsv cannot be read: No such file or directory"),
        ("p.tar", "p.tar is no table of captions: its name must end in .tsv, .csv, .txt, .json, .jsonl"),
        ("fr.csv", "none of the 1 photos that fr.csv names is in p.tar (the first is deep/c.jpg)"),
    ],
)
def test_what_cannot_be_used(here: Path, table: str, says: str) -> None:
    with pytest.raises(DataError, match=f"^{re.escape(says)}$"):
        FurtherTexts(open_source("p.tar"), [table])


def test_two_photos_of_one_name(here: Path) -> None:
    write(here / "folder" / "deep" / "c.jpg", jpeg())
    source = FurtherTexts(open_source("folder"), ["fr.csv"])
    assert {item.id: item.captions for item in source.items} == {
        "c.jpg": (),
        "deep/c.jpg": ("un bateau", "le bateau"),
    }
    write(here / "folder" / "high" / "c.jpg", jpeg())
    write(here / "both.tsv", "high/c.jpg\tone\nother/c.jpg\ttwo\ndeep/c.jpg\tthree\n")
    unclear = "1 of its 3 photos are not in folder, or not clear (other/c.jpg: it may be "
    (skipped,) = FurtherTexts(open_source("folder"), ["both.tsv"]).skipped
    assert skipped.reason == f"{unclear}c.jpg or deep/c.jpg: give more of its path)"


def test_all_splits(dataset: Path) -> None:
    photos = dataset.parent / "photos"
    source = open_source(dataset, images=photos)
    assert source.items == [
        Item("a.jpg", ("a dog", "two dogs")),
        Item("b.jpg", ("a cat",)),
        Item("c.jpg", ("a bird",)),
        Item("val2014/d.jpg", ()),
    ]
    assert source.skipped == [Skipped("gone.jpg", "no such file")]
    assert source.path(3) == f"{photos}/val2014/d.jpg"
    assert source.image(3).size == (40, 33)


@pytest.mark.parametrize(
    ("split", "ids"), [("train", ["a.jpg", "b.jpg"]), ("val", ["c.jpg"]), ("test", ["val2014/d.jpg"])]
)
def test_restval_is_for_training(dataset: Path, split: str, ids: list[str]) -> None:
    source = open_source(dataset, images=dataset.parent / "photos", split=split)
    assert [item.id for item in source.items] == ids


def test_photos_beside_the_json(dataset: Path) -> None:
    source = open_source(dataset.rename(dataset.parent / "photos" / "dataset.json"))
    assert len(source) == 4


def test_photos_without_the_folders_of_the_json(dataset: Path) -> None:
    photos = dataset.parent / "photos"
    (photos / "val2014" / "d.jpg").rename(photos / "d.jpg")
    source = open_source(dataset, images=photos)
    assert source.items[3].id == "val2014/d.jpg"
    assert source.path(3) == f"{photos}/d.jpg"


@pytest.mark.parametrize("images", ["tars", "tars/train-0.tar", "tars/*.tar"])
def test_photos_of_a_split_file_in_tars(dataset: Path, images: str) -> None:
    files = {"b.jpg": jpeg(), "x/a.jpg": jpeg((50, 50)), "other.jpg": jpeg()}
    tar = write_tar(dataset.parent / "tars" / "train-0.tar", files)
    source = open_source(dataset, images=dataset.parent / images, split="train")
    assert [item.id for item in source.items] == ["a.jpg", "b.jpg"]
    assert source.path(0) == f"{tar}/x/a.jpg"
    assert source.image(0).size == (50, 50)


def test_split_files_that_cannot_be_used(dataset: Path) -> None:
    photos = dataset.parent / "photos"
    with pytest.raises(DataError, match=r"has no split 'dev': it has test, train, val$"):
        open_source(dataset, images=photos, split="dev")
    with pytest.raises(DataError, match=r"none of the 5 photos .* is in .* \(the first is a\.jpg\)"):
        open_source(dataset)
    with pytest.raises(DataError, match="nowhere does not exist"):
        open_source(dataset, images=dataset.parent / "nowhere")
    for content, reason in [
        ("{", "is not JSON"),
        ("[]", "no list named images"),
        ('{"images": 3}', "no list named images"),
        ('{"images": []}', "names no photos: each needs a file name and a caption"),
    ]:
        write(dataset, content)
        with pytest.raises(DataError, match=reason):
            open_source(dataset, images=photos)


def test_entries_that_make_no_sense_are_skipped(tmp_path: Path) -> None:
    write(tmp_path / "a.jpg", jpeg())
    images = [
        image("a.jpg", "train", "a dog"),
        {},
        3,
        {"filename": "a.jpg", "sentences": [{}]},
        {"filename": 5},
    ]
    source = open_source(write(tmp_path / "dataset.json", json.dumps({"images": images})))
    assert source.items == [Item("a.jpg", ("a dog",))]
    assert [skipped.id for skipped in source.skipped] == ["images[1]", "images[2]", "images[3]", "images[4]"]


def test_halves_of_characters(tmp_path: Path) -> None:
    write(tmp_path / "a.jpg", jpeg())
    images = [
        {"filename": "a.jpg", "sentences": [{"raw": "a dog \ud800"}]},
        {"filename": "b\ud800.jpg", "sentences": []},
    ]
    write(tmp_path / "k.json", json.dumps({"images": images}))
    source = open_source(tmp_path / "k.json")
    assert [item.captions for item in source.items] == [("a dog ?",)]
    assert [skip.reason for skip in source.skipped] == ["the name is not UTF-8"]


def test_captions_of_a_table_or_of_lines(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("9\t0\ttwo  dogs\tfrom here\n9\t1\ta bike\tfrom there\n")
    (tmp_path / "a.csv").write_text("image,caption\nb.jpg,a café\n")
    (tmp_path / "a.json").write_text('[{"image": "b.jpg", "caption": ["a bus", "two  buses"]}]')
    (tmp_path / "a.txt").write_text("two dogs\nand, a cat\n")
    assert read_captions_alone(tmp_path / "a.tsv") == ["two dogs", "a bike"]
    assert read_captions_alone(tmp_path / "a.csv") == ["a café"]
    assert read_captions_alone(tmp_path / "a.json") == ["a bus", "two buses"]
    assert read_captions_alone(str(tmp_path / "a.txt")) == ["two dogs", "and, a cat"]
