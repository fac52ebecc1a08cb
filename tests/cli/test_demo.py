import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

from lexlip.cli.demo import PHOTOS, QUERIES

Run = Callable[..., Any]


def test_the_photos_that_ship(lexlip: Run, cache_home: Path) -> None:
    shown = lexlip("demo").stdout
    names = sorted(path.name for path in PHOTOS.glob("*.jpg"))
    assert f"\n{len(names)} photos, " in shown
    command = shown.rpartition("in the browser: ")[2]
    index = shlex.split(command)[-1]
    assert index == str(cache_home / "lexlip" / "demo")
    assert command == f"lexlip serve --index {index}\n"
    hits = json.loads(lexlip("search", "a red bike", "--index", index, "-k", "20", "--json").stdout)["hits"]
    assert {hit["id"] for hit in hits} <= set(names)


def test_a_folder_of_ones_own(lexlip: Run, photos: Path) -> None:
    photos.rename("my photos")
    shown = lexlip("demo", "my photos", "--index", "new").stdout
    assert "$ lexlip index 'my photos' --topk 32 --index new\n6 photos, " in shown
    for query in QUERIES:
        assert f"$ lexlip search '{query}' --index new -k 3\nquery words: " in shown
    assert shown.endswith("\nTo search in the browser: lexlip serve --index new\n")


def test_a_folder_that_is_not_there(lexlip: Run, cache_home: Path) -> None:
    for more in ([], ["--index", "new"]):
        assert lexlip("demo", "nothing", *more, code=2).stderr == "Error: nothing does not exist\n"
    assert not Path("new").exists()
    assert not (cache_home / "lexlip" / "demo").exists()


def test_a_demo_replaces_the_one_before(lexlip: Run, photos: Path, cache_home: Path) -> None:
    lexlip("demo")
    assert "\n6 photos, " in lexlip("demo", "photos").stdout
    assert [path.name for path in (cache_home / "lexlip").iterdir()] == ["demo"]
    index = cache_home / "lexlip" / "demo"
    hits = json.loads(lexlip("search", "dogs", "--index", index, "--json").stdout)["hits"]
    assert {hit["id"] for hit in hits} <= {f"{number}.jpg" for number in range(6)}


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
