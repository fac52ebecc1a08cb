from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from lexlip.cli.table_stages import COMMANDS
from lexlip.data import Scenes
from lexlip.errors import ConfigError
from lexlip.measure.evaluate import Report
from lexlip.training.run_folder import Training
from lexlip.bench.tables.response_plot import check_picture, draw_response
from lexlip.bench.tables.questions import make_questions
from lexlip.bench.response import Response
from lexlip.bench.tables.rows import Plan, Row
from lexlip.bench.tables.views import VIEWS, cells, figure, notes
from lexlip.bench.tables.formatting import as_markdown, as_text

T2I, I2T = {"R@1": 1.0, "R@5": 25.04, "R@10": 50.0}, {"R@1": 2.0, "R@5": 30.0, "R@10": 60.0}
REPORT = Report(30, 150, T2I, I2T, None, None, None, [])
SECONDS = np.array([[0.001, 0.002, 0], [0.001, 0.004, 0]])
ALONE = Row(
    "be", "dense", 30, report=REPORT, response=Response(SECONDS, 512.4), photo_bytes=1536.4, speed_up=8
)
RERANKED = Row(
    "be",
    "dense",
    30,
    "ce",
    20,
    "none",
    REPORT,
    Response(SECONDS + [0, 0, 0.1], 900),
    2,
    40_000,
    Training(9, 61.5),
)
PAIRS = Row("ce", "pairs", 30, response=Response(np.array([[0, 0, 2.0]]), 800, scored=10), speed_up=1)
QUESTIONS = make_questions(Scenes(30, seed=0), pairs=10, captions=2)


def test_each_command_has_a_view() -> None:
    assert list(VIEWS) == list(COMMANDS)


def test_stages() -> None:
    heading, alone, reranked = cells(VIEWS["stages"], [ALONE, RERANKED])
    assert heading == [
        *("model", "reranked by", "documents", "k", "T2I R@1", "R@5", "R@10", "I2T R@1", "R@5", "R@10"),
        *("mean", "P50 ms", "P99 ms", "B/photo", "train min"),
    ]
    recalls = ["1.0", "25.0", "50.0", "2.0", "30.0", "60.0", f"{REPORT.mean_recall:.1f}"]
    assert alone == ["be", "-", "dense", "-", *recalls, "4.00", "4.98", "1,536", "-"]
    assert reranked == ["be", "ce", "dense", "20", *recalls, "104", "105", "40,000", "62"]
    assert REPORT.mean_recall == pytest.approx((1 + 25.04 + 50 + 2 + 30 + 60) / 6)


def test_what_no_row_has_is_left_out() -> None:
    heading, line = cells(VIEWS["lightningdot-1"], [ALONE])
    assert heading[:3] == ["model", "documents", "T2I R@1"]
    assert heading[-1] == "AR"
    assert line[:2] == ["be", "dense"]


def test_seconds_and_what_is_extrapolated() -> None:
    heading, *lines = cells(VIEWS["lightningdot-3"], [PAIRS, ALONE])
    assert heading[2:] == ["photos", "s a query", "encode", "search", "rerank", "speed-up"]
    assert lines[0] == ["ce", "pairs", "30", "≈2.00", "0", "≈0", "≈2.00", "1.00x"]
    assert lines[1] == ["be", "dense", "30", "0.00400", "0.00100", "0.00300", "0", "8.00x"]
    said = notes(
        VIEWS["lightningdot-3"], Plan(models=["be"], recall=False, response=True), QUESTIONS, [PAIRS], "x"
    )
    assert any(
        note.startswith("≈ the cross-encoder alone was timed on 10 photos with 1 captions") for note in said
    )


def test_single_queries_and_memory() -> None:
    heading, line = cells(VIEWS["vldeformer-4"], [ALONE])
    assert heading[2:] == ["mean ms", "min ms", "max ms", "P95 ms", "P99.99 ms", "MB"]
    milliseconds = [4, 3, 5, np.percentile([3, 5], 95), np.percentile([3, 5], 99.99)]
    assert line[2:] == [*(f"{value:#.3g}" for value in milliseconds), "512"]


def test_fusions_are_named_where_they_differ() -> None:
    from dataclasses import replace

    heading, *lines = cells(VIEWS["retrieve-9"], [ALONE, RERANKED, replace(RERANKED, fusion="add")])
    assert heading[:5] == ["model", "reranked by", "fusion", "documents", "k"]
    assert [line[2] for line in lines] == ["-", "none", "add"]


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (0.00123456, "0.00123"), (12.345, "12.3"), (99.99, "100"), (1234.5, "1,234")],
)
def test_three_digits(number: float, text: str) -> None:
    assert figure(number) == text


@pytest.mark.parametrize("name", VIEWS)
def test_every_table_can_be_printed_and_explained(name: str) -> None:
    rows: Sequence[Row] = [PAIRS, ALONE, RERANKED]
    table = cells(VIEWS[name], rows)
    assert len({len(line) for line in table}) == 1
    assert len(as_text(table).splitlines()) == 4
    assert len(as_markdown(table).splitlines()) == 5
    said = notes(VIEWS[name], Plan(models=["be"]), QUESTIONS, rows, "photos")
    assert said[0] == (
        "Measured with 10 photos and 20 captions of photos, in a pool of 30 photos and 60 captions."
    )
    if name != "stages":
        assert "arXiv" in " ".join(said[-2:])


def test_json() -> None:
    plain = RERANKED.to_dict()
    assert (plain["rerank"], plain["k"], plain["t2i"], plain["training_minutes"]) == ("ce", 20, T2I, 61.5)
    assert plain["seconds"]["rerank"] == pytest.approx(0.1)
    assert PAIRS.to_dict()["t2i"] is None


def test_a_picture(tmp_path: Path) -> None:
    draw_response([PAIRS, ALONE, RERANKED], tmp_path / "plot.svg")
    text = (tmp_path / "plot.svg").read_text()
    assert "<svg" in text
    check_picture(tmp_path / "plot.PNG")
    with pytest.raises(ConfigError, match=r"plot.doc: name it \."):
        check_picture(tmp_path / "plot.doc")
    with pytest.raises(ConfigError, match="there is no such folder"):
        check_picture(tmp_path / "nowhere" / "plot.svg")
    with pytest.raises(ConfigError, match="cannot write the picture to"):
        draw_response([ALONE], tmp_path / "nowhere" / "plot.svg")
