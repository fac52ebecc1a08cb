import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import error

Run = Callable[..., Any]


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting others takes seconds."""
    monkeypatch.setattr("lexlip.bench.encoding.in_own_process", lambda function, *given: function(*given))


@pytest.mark.slow
def test_json(lexlip: Run, photos: Path) -> None:
    (photos / "bad.jpg").write_text("no photo")
    result = lexlip("bench", "encode", "photos", "--rounds", 1, "--workers", 1, "--json")
    assert result.stderr == ""
    report = json.loads(result.stdout)
    conditions = report["conditions"]
    wanted = {"model": "mini", "pixels": 32, "photos": 6, "unreadable": 1, "photo_width": 96, "workers": 1}
    assert wanted.items() <= conditions.items()
    assert {"cpu", "cores", "threads", "torch", "batch", "rounds", "photo_height", "photo_kb"} < {*conditions}
    assert list(report["loops"]) == ["index", "plain"]
    for row in report["loops"].values():
        assert 0 <= row["busy"] < 1.1  # the clock of processors ticks ten milliseconds
        rates = row["photos_per_s"]
        assert 0 < rates["least"] == rates["median"] == rates["most"]
    assert list(report["ratio"]) == ["median", "least", "most"]


@pytest.mark.usefixtures("in_this_process")
def test_text(lexlip: Run, photos: Path) -> None:
    result = lexlip("bench", "encode", "photos", "--photos", 3, "--rounds", 2, "--workers", 0)
    lines = result.stdout.splitlines()
    assert lines[0].startswith("3 photos of 96 x 96 pixels (")
    assert lines[1] == "mini: vit_tiny_patch16_224 at 32 pixels on cpu, batches of 32"
    assert ", workers: 0, rounds: 2, torch " in lines[2]
    assert [line[:26].strip() for line in lines[4:]] == ["lexlip index", "plain, as with open_clip", "ratio"]
    assert result.stderr == ""  # a progress bar is for terminals


@pytest.mark.usefixtures("in_this_process")
def test_what_cannot_be_measured(lexlip: Run, photos: Path) -> None:
    assert error(lexlip("bench", "encode", "nowhere", code=2)).startswith("nowhere ")
    assert error(lexlip("bench", "encode", "photos", "--model", "maxi", code=2)).startswith("no model 'maxi'")
    for photo in photos.glob("*.jpg"):
        photo.write_bytes(b"no photo")
    says = "no photo in photos can be read (6 tried)"
    assert error(lexlip("bench", "encode", "photos", "--json", code=2)) == says


@pytest.mark.parametrize(("option", "value"), [("--photos", 0), ("--rounds", 0), ("--workers", -1)])
def test_bad_options(lexlip: Run, photos: Path, option: str, value: int) -> None:
    result = lexlip("bench", "encode", "photos", option, value, code=2)
    assert f"'{option}': {value} is not in the range" in result.stderr
