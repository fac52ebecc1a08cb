import os
import re
from pathlib import Path

import pytest
from PIL import Image

from lexlip.cli.demo import PHOTOS, QUERIES
from tests.cli.conftest import Run, search


def test_the_photos_that_ship_and_then_ones_own(lexlip: Run, cache_home: Path, photos: Path) -> None:
    index = cache_home / "lexlip" / "demo"

    def found(query: str) -> set[str]:
        return {hit["id"] for hit in search(lexlip, query, "--index", index, "-k", 20)["hits"]}

    shown = lexlip("demo").stdout
    names = sorted(path.name for path in PHOTOS.glob("*.jpg"))
    assert f"\n{len(names)} photos, " in shown
    assert shown.endswith(f"\nTo search in the browser: lexlip serve --index {index}\n")
    assert found("a red bike") <= set(names)

    photos.rename("my photos")
    shown = lexlip("demo", "my photos").stdout
    assert f"$ lexlip index 'my photos' --topk 32 --index {index}\n6 photos, " in shown
    for query in QUERIES:
        assert f"$ lexlip search '{query}' --index {index} -k 3\nquery words: " in shown
    assert [path.name for path in index.parent.iterdir()] == ["demo"]
    assert found("dogs") <= {f"{number}.jpg" for number in range(6)}


def test_a_folder_that_is_not_there(lexlip: Run, cache_home: Path) -> None:
    for more in ([], ["--index", "new"]):
        assert lexlip("demo", "nothing", *more, code=2).stderr == "Error: nothing does not exist\n"
    assert not Path("new").exists()
    assert not (cache_home / "lexlip" / "demo").exists()


def test_a_user_without_a_home(lexlip: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", str)
    said = lexlip("demo", code=2).stderr
    assert said.startswith("Error: cannot write the index of the demo: this user has no home folder: ")
    assert said.endswith("; to make it elsewhere, give --index ELSEWHERE\n")


def test_each_photo_is_listed_with_its_licence() -> None:
    lines = (PHOTOS / "LICENSES.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if ".jpg` |" in line]
    assert [row[0].strip("`") for row in rows] == sorted(path.name for path in PHOTOS.glob("*.jpg"))
    for row in rows:
        assert re.search(r"public domain|CC0 1\.0|CC BY 2\.0|no known copyright restrictions", row[3])


def test_the_photos_are_small() -> None:
    assert sum(path.stat().st_size for path in PHOTOS.iterdir()) < 2_000_000
    for path in PHOTOS.glob("*.jpg"):
        with Image.open(path) as photo:
            assert max(photo.size) <= 640
            assert not photo.getexif()
