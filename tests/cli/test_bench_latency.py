import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lexlip.bench.response import STAGES
from tests.cli.conftest import error

Run = Callable[..., Any]


@pytest.fixture
def indexed(lexlip: Run, photos: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line, where .lexlip has the six photos, and warming up takes no time."""
    monkeypatch.setattr("lexlip.bench.clocks.WARM_UP", 0.01)
    lexlip("index", "photos", "--topk", 4)
    return lexlip


def test_json(indexed: Run) -> None:
    report = json.loads(indexed("bench", "latency", "photos", "--json", "--query-topk", 2).stdout)
    assert report["conditions"]["documents"] == report["conditions"]["queries"] == 6
    assert list(report["encoders"]) == ["network", "words"]
    assert [tuple(stages) for stages in report["encoders"].values()] == [("terms", *STAGES)] * 2


def test_text(indexed: Run) -> None:
    lines = indexed("bench", "latency", "photos", "--docs", 50, "--queries", 3).stdout.splitlines()
    assert lines[0] == "50 documents, 3 queries of up to 24 words, k = 10"
    assert [line.split()[0].strip(",") for line in lines[2:]] == ["network", *STAGES, "words", *STAGES]


def test_what_cannot_be_measured(lexlip: Run, photos: Path) -> None:
    assert error(lexlip("bench", "latency", "photos", code=2)).startswith("there is no index at .lexlip")
    lexlip("index", "photos")
    for caption in photos.glob("*.txt"):
        caption.unlink()
    assert "caption" in error(lexlip("bench", "latency", "photos", code=2))
