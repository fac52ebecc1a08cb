from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lexlip.data import Scenes, open_source
from lexlip.evaluation import table2 as module
from lexlip.bench.throughput import Timed
from lexlip.bench.tables.systems import Settings, System
from lexlip.bench.tables.table2 import HEADING, Row, Table2, cells, table2
from lexlip.models.clip import Clip
from lexlip.models.lexlip import LexLIP
from tests.tiny import tiny_model
from tests.tiny_clip import write_clip


@pytest.fixture(scope="module")
def model() -> LexLIP:
    return tiny_model()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Speed is measured with one query and a short time."""
    plain = module.queries_per_second
    monkeypatch.setattr(
        module, "queries_per_second", lambda timed, rounds, progress: plain(timed, rounds, duration=0.001)
    )


def measure(model: LexLIP, queries: Any = None, pool: Any = (), **changes: Any) -> Table2:
    options = {"clip": None, "topks": [None, 4], "settings": Settings(), "rounds": 1, "workers": 0}
    return table2(model, queries or Scenes(8, seed=0), pool, **{**options, **changes})


def test_all_systems(model: LexLIP, tmp_path: Path) -> None:
    clip = Clip.from_pretrained(write_clip(tmp_path / "clip"))
    table = measure(model, pool=[Scenes(4, seed=1)], clip=clip, settings=Settings(synthetic=50))
    names = ["BM25", "CLIP, one by one", "CLIP, 256 together", "LexLIP", "LexLIP"]
    assert [row.name for row in table.rows] == names
    assert [row.documents for row in table.rows] == ["captions", "dense", "dense", "all", "top-4"]
    assert [row.system and row.system.items for row in table.rows] == [12, 62, 62, 62, 62]
    for row in table.rows:
        assert row.qps is not None
        assert row.qps > 0
        assert row.system is not None
        for way in (row.system.t2i, row.system.i2t):
            assert way is not None
            assert 0 <= way["R@1"] <= way["R@5"] <= way["R@10"] <= 100
    assert table.notes[0] == (
        "Measured with the 8 photos and 40 captions of 8 drawn scenes of seed 0 in a pool of 12 photos and"
        " 60 captions, and 50 synthetic vectors beside each."
    )
    text = " ".join(table.notes)
    assert "the 32 others ask" in text
    assert "cannot be in its pool, which has 12." in text
    assert "Synthetic vectors are no photos." in text
    assert "no weights" not in text


def test_without_clip_s_weights(model: LexLIP) -> None:
    table = measure(model)
    _, one, many, *_ = table.rows
    assert one.system is not None
    assert (one.system.t2i, one.system.items, one.system.item_bytes) == (None, 8, 2048)
    assert one.qps is not None
    assert many.qps is not None
    text = " ".join(table.notes)
    assert "CLIP has no recall here, as no weights were given (--clip)" in text
    assert "Synthetic" not in text
    assert "lower bound" in text


def test_without_a_second_caption(model: LexLIP, photos: Path) -> None:
    table = measure(model, open_source(photos))
    assert (table.rows[0].name, table.rows[0].system) == ("BM25", None)
    assert "BM25 cannot be measured: no photo has a second caption to ask with." in table.notes
    assert table.rows[-1].system is not None


def system(**changes: Any) -> System:
    timed = Timed(lambda _: 1.0, 1)
    plain = {"t2i": {"R@1": 1.0, "R@5": 25.04, "R@10": 50.0}, "i2t": None}
    sizes = {"items": 1000, "megabytes": 0.25, "megabytes_without_ids": 0.1, "item_bytes": 96.2}
    return System("LexLIP", "top-32", **{**sizes, "timed": timed, **plain, **changes})


def test_a_line() -> None:
    heading, line, bare = cells(
        [Row("LexLIP", "top-32", system(), qps=1234.5), Row("LexLIP", "top-9", system(), qps=9.96)]
    )
    assert heading == HEADING
    assert line == [
        *("LexLIP", "top-32", "0.25", "0.10", "96", "250", "1,234"),
        *("1.0", "25.0", "50.0", "-", "-", "-", "71.0", "249", "42.0"),
    ]
    assert bare[6:] == ["9.96", "1.0", "25.0", "50.0"] + ["-"] * 6


def test_a_line_as_json() -> None:
    assert Row("LexLIP", "top-32", system(), qps=10.0).to_dict() == {
        "system": "LexLIP",
        "documents": "top-32",
        "photos": 1000,
        "megabytes": 0.25,
        "megabytes_without_ids": 0.1,
        "photo_bytes_by_the_papers_accounting": 96.2,
        "photo_bytes": 250,
        "qps": 10.0,
        "t2i": {"R@1": 1.0, "R@5": 25.04, "R@10": 50.0},
        "i2t": None,
        "paper": {"megabytes": 71, "qps": 249, "recall": 42.0},
    }
    missing = Row("BM25", "captions").to_dict()
    assert {key for key, value in missing.items() if value is not None} == {"system", "documents", "paper"}
    assert Row("LexLIP", "top-9").to_dict()["paper"] is None


def test_indexes_are_closed_whatever_happens(
    model: LexLIP, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(stack: ExitStack, *_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(module, "impact", fail)
    with pytest.raises(KeyboardInterrupt):
        measure(model)
    assert list(tmp_path.iterdir()) == []
