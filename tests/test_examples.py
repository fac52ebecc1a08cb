"""The scripts of docs/examples do what their first line says, with real photos and the packaged model."""

import re
import runpy
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from lexlip.cli.demo import PHOTOS
from tests.conftest import ROOT

EXAMPLES = ROOT / "docs" / "examples"
FOLDERS = {"coffee.jpg": "", "chelsea.jpg": "", "rocket.jpg": "", "astronaut.jpg": "people"}
"""By photo that ships the folder that it is put into."""

Run = Callable[..., str]
made: dict[Path, str] = {}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with photos in it."""
    folder = tmp_path_factory.mktemp("examples")
    for name, below in FOLDERS.items():
        to = folder / "photos" / below
        to.mkdir(parents=True, exist_ok=True)
        shutil.copy(PHOTOS / name, to)
    date = Image.Exif()
    date.get_ifd(0x8769)[0x9003] = "1993:04:08 12:00:00"  # DateTimeOriginal
    with Image.open(folder / "photos" / "people" / "astronaut.jpg") as photo:
        photo.save(folder / "photos" / "people" / "collins.jpg", exif=date, quality=95)
    (folder / "photos" / "chelsea.txt").write_text("Chelsea, my cat\n")
    return folder


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs an example in that folder, after the one that indexes."""
    monkeypatch.chdir(folder)

    def run(name: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    if folder not in made:
        made[folder] = run("search_a_folder.py", "photos")
    return run


def test_search_a_folder(run: Run, folder: Path) -> None:
    first, best, *_ = made[folder].splitlines()
    assert first == "5 photos, 0 skipped"
    assert re.match(rf"1  0\.\d+  {folder}/photos/coffee.jpg  {{'table': ", best)


def test_filters_and_pages(run: Run) -> None:
    assert run("filters_and_pages.py") == "1 people/collins.jpg 1993-04-08T12:00:00\n"


def test_words_as_chips(run: Run) -> None:
    lines = dict(line.split(": ", 1) for line in run("words_as_chips.py").splitlines())
    assert "'looking'" in lines["words"]
    assert "'looking'" not in lines["changed"]
    assert lines["changed"].endswith("without ['cup']")
    assert lines["best"] == "chelsea.jpg"
    assert lines["by words"].startswith("coffee.jpg {'table': ")
    assert "coffee.jpg" not in lines["similar"]


def test_explain_a_hit(run: Run, folder: Path) -> None:
    *rows, last = run("explain_a_hit.py").splitlines()
    assert rows[0].startswith("table ")
    score = float(last.split()[-1])
    assert score == pytest.approx(sum(float(row.split()[-1]) for row in rows), abs=1e-5)
    assert "cup" in (folder / "words.svg").read_text(encoding="utf-8")
    with Image.open(folder / "heat.png") as heat, Image.open(folder / "photos" / "coffee.jpg") as photo:
        assert heat.size == photo.size
        assert heat.tobytes() != photo.convert("RGB").tobytes()


def test_vectors_with_scipy(run: Run) -> None:
    lines = run("vectors_with_scipy.py", "photos/chelsea.jpg", "photos/coffee.jpg").splitlines()
    assert lines[:2] == [
        "photos/chelsea.jpg a cat looking at the camera",
        "photos/coffee.jpg a cup of coffee on a table",
    ]
    assert "'eyes'" in lines[2]


def test_threads(run: Run) -> None:
    assert run("threads.py").splitlines() == [
        "a cat looking at the camera -> chelsea.jpg",
        "a rocket taking off -> rocket.jpg",
        "a cup of coffee on a table -> coffee.jpg",
    ]


def test_two_indexes(run: Run) -> None:
    assert run("two_indexes.py", "photos").splitlines()[0] == "1 chelsea.jpg"


def test_update_and_refresh(run: Run, folder: Path) -> None:
    """Last, as it changes the folder."""
    shutil.copy(folder / "photos" / "rocket.jpg", folder / "photos" / "new.jpg")
    with Image.open(folder / "photos" / "rocket.jpg") as photo:
        photo.resize((320, 213)).save(folder / "photos" / "small.jpg")
    (folder / "photos" / "rocket.jpg").unlink()
    out = run("update_and_refresh.py")
    assert "4 unchanged" in out
    assert out.splitlines()[1] in ("best now: new.jpg", "best now: small.jpg")


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_is_short_and_tested(example: Path) -> None:
    text = example.read_text(encoding="utf-8")
    assert text.startswith('"""')
    assert text.count("\n") < 30
    assert f"def test_{example.stem}(" in Path(__file__).read_text(encoding="utf-8")
