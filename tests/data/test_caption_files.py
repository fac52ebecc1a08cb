import json
from pathlib import Path
from typing import Any

import pytest

from lexlip.data import Skipped, open_source

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


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    write(tmp_path / "a.jpg", jpeg())
    write(tmp_path / "sub" / "b.png", jpeg())
    return tmp_path


def test_many_missing_photos_are_one_line(photos: Path) -> None:
    rows = "a.jpg\ta dog\n" + "".join(f"gone{number:02}.jpg\ta cat\n" for number in range(11))
    table = write(photos / "t.tsv", rows)
    why = f"11 of its 12 photos are not in {photos}, such as gone00.jpg"
    assert open_source(table).skipped == [Skipped(str(table), why)]
    table.write_text(rows[: rows.index("gone10")])
    assert open_source(table).skipped == [Skipped(f"gone{n:02}.jpg", "no such file") for n in range(10)]
