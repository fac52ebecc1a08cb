import json
from pathlib import Path
from typing import Any

import pytest

from lexlip.data import Item, Skipped, open_source
from lexlip.errors import DataError

from .pictures import jpeg, write, write_tar


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
    ("split", "ids"),
    [("train", ["a.jpg", "b.jpg"]), ("val", ["c.jpg"]), ("test", ["val2014/d.jpg"])],
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
def test_photos_in_tars(dataset: Path, images: str) -> None:
    files = {"b.jpg": jpeg(), "x/a.jpg": jpeg((50, 50)), "other.jpg": jpeg()}
    tar = write_tar(dataset.parent / "tars" / "train-0.tar", files)
    source = open_source(dataset, images=dataset.parent / images, split="train")
    assert [item.id for item in source.items] == ["a.jpg", "b.jpg"]
    assert source.path(0) == f"{tar}/x/a.jpg"
    assert source.image(0).size == (50, 50)


def test_errors(dataset: Path) -> None:
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
