import random
import re
import unicodedata
from pathlib import Path

import pytest

from lexlip.data import Item, Skipped, open_source
from lexlip.data.named_photos import NamedPhotos
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
