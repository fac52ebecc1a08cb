import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from anserini_bridge import CorruptIndex, IndexHeader, IndexMetadata
from lexlip.data import Given, Source, open_library, open_source
from lexlip.errors import DataError
from lexlip.retrieval.collection import (
    check_same_collection,
    check_same_photos,
    check_stored,
    describe_collection,
    locate,
    root_of,
)
from tests.conftest import write_photos
from tests.data.pictures import write_tar

LISTED = 12.5


def paths(source: Source, extra: dict[str, Any], index: Path) -> list[str]:
    return [locate(item.id, extra, index) for item in source.items]


@pytest.fixture
def table(photos: Path, tmp_path: Path) -> Source:
    """Two photos of a table, of which the second lies in another folder than its id says."""
    (tmp_path / "table.tsv").write_text("image\tcaption\n0.jpg\ta dog\ny/1.jpg\ta cat\n")
    return open_source(tmp_path / "table.tsv", photos)


# ---- where photos lie ----


def test_photos_beside_their_index(photos: Path, tmp_path: Path) -> None:
    source = open_source(photos)
    extra = describe_collection(source, tmp_path / "index", LISTED)
    assert extra == {"listed": LISTED, "source": str(photos), "root": f"{photos}/", "relative": False}
    assert paths(source, extra, tmp_path / "index") == [str(photos / f"{number}.jpg") for number in range(6)]


def test_photos_around_their_index_move_with_it(photos: Path) -> None:
    source = open_source(photos)
    extra = describe_collection(source, photos / "deep" / "index", LISTED)
    assert (extra["source"], extra["root"], extra["relative"]) == ("../..", "../..", True)
    photos.rename(photos.with_name("moved"))
    moved = photos.with_name("moved")
    found = paths(source, extra, moved / "deep" / "index")
    assert found == [str(moved / f"{number}.jpg") for number in range(6)]


def test_photos_in_tars(photos: Path, tmp_path: Path) -> None:
    write_tar(tmp_path / "tars" / "a.tar", {"0.jpg": (photos / "0.jpg").read_bytes()})
    source = open_source(tmp_path / "tars")
    extra = describe_collection(source, tmp_path / "index", LISTED)
    assert paths(source, extra, tmp_path / "index") == [str(tmp_path / "tars" / "a.tar" / "0.jpg")]


def test_photos_in_several_folders_are_told_by_their_table_alone(table: Source, tmp_path: Path) -> None:
    extra = describe_collection(table, tmp_path / "index", LISTED)
    assert extra == {"listed": LISTED, "source": str(tmp_path / "table.tsv")}


def test_an_older_index_has_a_path_for_each_photo(tmp_path: Path) -> None:
    extra = {"listed": LISTED, "source": "table.tsv", "paths": {"y/1.jpg": "/photos/1.jpg"}}
    assert locate("y/1.jpg", extra, tmp_path / "index") == "/photos/1.jpg"
    assert locate("unknown.jpg", extra, tmp_path / "index") == "unknown.jpg"


def test_a_folder_whose_name_is_not_utf8(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    try:
        source = open_source(write_photos(folder, 1))
    except OSError:
        pytest.skip("this file system has only UTF-8 names")
    with pytest.raises(DataError, match="has a name that is not UTF-8"):
        describe_collection(source, tmp_path / "index", LISTED)
    fine = open_source(write_photos(tmp_path / "photos", 1))
    with pytest.raises(DataError, match="has a name that is not UTF-8"):
        describe_collection(fine, folder / "index", LISTED)


# ---- whether they are the same ----


def test_the_same_collection_listed_again(photos: Path, table: Source, tmp_path: Path) -> None:
    for source, index in (
        (open_source(photos), tmp_path / "index"),
        (open_source(photos), photos / "index"),
        (table, tmp_path / "index"),
    ):
        was = describe_collection(source, index, LISTED)
        check_same_collection(was, describe_collection(source, index, 99.0), index)


def test_a_collection_that_moved_with_its_index(photos: Path) -> None:
    was = describe_collection(open_source(photos), photos / "index", LISTED)
    photos.rename(photos.with_name("moved"))
    moved = photos.with_name("moved")
    now = describe_collection(open_source(moved), moved / "index", LISTED)
    check_same_collection(was, now, moved / "index")


def test_the_root_of_photos_that_moved_beside_their_index(photos: Path) -> None:
    beside = photos.parent / "all"
    beside.mkdir()
    source = open_library(Given((str(photos.rename(beside / "photos")),)))
    one, two = (describe_collection(source, beside / name, LISTED) for name in ("one", "two"))
    moved = beside.rename(photos.parent / "moved")
    assert root_of(one, moved / "one") == str(moved / "photos")
    there = open_library(Given((str(moved / "photos"),)))
    now = describe_collection(there, moved / "two", LISTED)
    for other in (two, now):
        check_same_photos(one, other, moved / "one", moved / "two")
    assert root_of(one, photos.parent / "alone") == str(beside / "photos")


def test_another_source(photos: Path, tmp_path: Path) -> None:
    index, others = tmp_path / "index", write_photos(tmp_path / "others", 2)
    was = describe_collection(open_source(photos), index, LISTED)
    with pytest.raises(DataError) as caught:
        check_same_collection(was, describe_collection(open_source(others), index, LISTED), index)
    assert str(caught.value) == (
        f"the index {index} was made from {photos}, not from {others}: update it from there,"
        " or index without --update"
    )


def test_a_table_with_photos_from_elsewhere(photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos, tmp_path / "others")
    (tmp_path / "table.tsv").write_text("image\tcaption\n0.jpg\ta dog\n1.jpg\ta cat\n")
    was, now = (
        describe_collection(open_source(tmp_path / "table.tsv", tmp_path / images), tmp_path / "ix", LISTED)
        for images in ("photos", "others")
    )
    with pytest.raises(DataError, match=f"was made from {photos}, not from {tmp_path / 'others'}: "):
        check_same_collection(was, now, tmp_path / "ix")


def test_a_table_whose_photos_are_in_several_folders_now(table: Source, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "one.tsv").write_text("image\tcaption\n0.jpg\ta dog\n")
    index = tmp_path / "index"
    one = describe_collection(open_source(tmp_path / "one.tsv", photos), index, LISTED)
    several = {**describe_collection(table, index, LISTED), "source": one["source"]}
    with pytest.raises(DataError, match=f"was made from {photos}, not from several folders: "):
        check_same_collection(one, several, index)


def test_an_index_that_is_too_old_to_tell(photos: Path, tmp_path: Path) -> None:
    now = describe_collection(open_source(photos), tmp_path / "index", LISTED)
    was = {"root": now["root"], "relative": False}
    with pytest.raises(DataError, match="is too old to say when its photos were listed: index once without"):
        check_same_collection(was, now, tmp_path / "index")


def test_two_indexes_of_the_same_photos(photos: Path, tmp_path: Path) -> None:
    """One lies among them and one does not."""
    source = open_source(photos)
    inside, beside = photos / "index", tmp_path / "index"
    first, second = (describe_collection(source, index, LISTED) for index in (inside, beside))
    check_same_photos(first, second, inside, beside)


def test_two_indexes_of_other_photos(photos: Path, table: Source, tmp_path: Path) -> None:
    first = describe_collection(open_source(photos), tmp_path / "one", LISTED)
    (photos / "deep").mkdir()
    (photos / "5.jpg").rename(photos / "deep" / "5.jpg")
    second = describe_collection(open_source(photos / "deep"), tmp_path / "two", LISTED)
    with pytest.raises(DataError) as caught:
        check_same_photos(first, second, tmp_path / "one", tmp_path / "two")
    assert str(caught.value) == (
        f"{tmp_path / 'one'} and {tmp_path / 'two'} are not indexes of the same photos: the ids of the first"
        f" are paths below {photos}, those of the second paths below {photos / 'deep'}"
    )
    third = describe_collection(table, tmp_path / "three", LISTED)
    with pytest.raises(DataError, match="paths below several folders"):
        check_same_photos(first, third, tmp_path / "one", tmp_path / "three")


EXTRA = {
    "model": "mini",
    "listed": 1.5,
    "source": "photos",
    "root": "photos/",
    "relative": False,
    "given": {"sources": [["/p", "../p", ""], ["*.tar"]], "images": None, "split": None, "exclude": ["a"]},
    "photos": "photos-1.sqlite",
    "captions": {"folder": "captions-1", "language": "en", "documents": 6},
    "kept": {"share": 1.5},
    "mounts": {"disk": "/p/disk"},
}


def header(extra: dict[str, Any]) -> IndexHeader:
    return IndexHeader(kind="x", directory="data-1", documents=1, encoder="e", extra=extra)


@pytest.mark.parametrize("extra", [EXTRA, {}, {"paths": {"a": "/p/a"}}, {"model": None, "later": [1]}])
def test_what_indexes_store(extra: dict[str, Any]) -> None:
    check_stored(Path("ix"), header(extra))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"model": 3}, "extra.model is 3"),
        ({"listed": "x"}, "extra.listed is 'x'"),
        ({"root": 1}, "extra.root is 1"),
        ({"relative": None}, "extra.relative is None"),
        ({"given": {}}, "extra.given is {}"),
        ({"given": {**EXTRA["given"], "sources": [["a", "b"]]}}, "extra.given.sources[0] is ['a', 'b']"),  # type: ignore[dict-item]
        ({"photos": "../../x"}, "'../../x' is no name of a file"),
        ({"captions": {**EXTRA["captions"], "folder": ".."}}, "'..' is no name of a file"),  # type: ignore[dict-item]
        ({"captions": []}, "extra.captions is []"),
        ({"paths": {"a": 1}}, "extra.paths['a'] is 1"),
        ({"kept": {"share": "x"}}, "extra.kept['share'] is 'x'"),
        ({"mounts": ["disk"]}, "extra.mounts is ['disk']"),
        ({"mounts": {"disk": 1}}, "extra.mounts['disk'] is 1"),
    ],
)
def test_what_no_index_stores(changed: dict[str, Any], why: str) -> None:
    message = f"^ix/index.json is damaged ({why}): build the index again$"
    with pytest.raises(CorruptIndex, match=re.escape(message).replace(r"\^", "^").replace(r"\$", "$")):
        check_stored(Path("ix"), header({**EXTRA, **changed}))


def test_quantization_of_words() -> None:
    about: dict[str, Any] = {"directory": "data-1", "documents": 1, "encoder": "e", "lucene_version": "1"}
    about |= {"vocabulary": "v", "vocabulary_size": 1, "topk": None, "normalize": True, "postings": 1}
    check_stored(Path("ix"), IndexMetadata(**about, quantization={"scheme": "unit", "scale": 1000}))
    with pytest.raises(CorruptIndex, match="quantization"):
        check_stored(Path("ix"), IndexMetadata(**about, quantization={"scheme": "unit"}))
