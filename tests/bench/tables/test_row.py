from dataclasses import replace

import numpy as np
import pytest

from lexlip.bench.response import Response
from lexlip.bench.tables import TABLES
from lexlip.bench.tables.row import Evaluation, Row, quote
from lexlip.bench.tables.table import Table
from lexlip.measure.recalls import Ranking
from tests.bench.tables.some_table import ALONE, I2T, PAIRS, REPORT, RERANKED, T2I, cells


def test_recalls_are_those_of_the_report() -> None:
    row = Row(model="be", documents="dense", report=REPORT)
    assert (row.t2i, row.i2t) == (T2I, I2T)


def test_a_system_has_recalls_without_a_report() -> None:
    row = Row(model="BM25", documents="captions", t2i=T2I)
    assert (row.t2i, row.i2t, row.report) == (T2I, None, None)


def test_recalls_at_other_cut_offs() -> None:
    found = [["a", "b", "c"], ["b", "c", "a"]]
    ranking = Ranking(["x", "y"], found, [], [{"a"}, {"a"}])
    report = replace(REPORT, rankings={"t2i": ranking, "i2t": ranking})
    row = Row(model="be", documents="dense", report=report, cutoffs=(2, 3))
    assert row.t2i == {**T2I, "R@2": 50, "R@3": 100}
    assert row.average_recall == 75
    assert replace(row, k=5).t2i == row.t2i


def test_averages_and_totals() -> None:
    row = Row(model="be", documents="dense", report=REPORT)
    assert row.average_recall == pytest.approx(REPORT.mean_recall)
    assert Row(model="be", documents="dense", t2i=T2I).average_recall is None
    assert row.total_seconds is None
    timed = replace(row, response=Response(np.array([[1.0, 1, 0], [2, 2, 0]]), 1.0))
    assert timed.total_seconds is None
    assert replace(timed, queries=50).total_seconds == pytest.approx(150)
    assert Evaluation(encode=1.0, search=2.0, rerank=3.0).total == 6


OF_STAGES = [table for table in TABLES.values() if table.name not in ("1", "2", "3")]


def test_stages() -> None:
    heading, alone, reranked = cells(TABLES["stages"], [ALONE, RERANKED])
    assert heading == [
        *("model", "reranked by", "documents", "k", "T2I R@1", "R@5", "R@10", "I2T R@1", "R@5", "R@10"),
        *("mean", "P50 ms", "P99 ms", "B/photo", "train min"),
    ]
    recalls = ["1.0", "25.0", "50.0", "2.0", "30.0", "60.0", f"{REPORT.mean_recall:.1f}"]
    assert alone == ["be", "-", "dense", "-", *recalls, "4.00", "4.98", "1,536", "-"]
    assert reranked == ["be", "ce", "dense", "20", *recalls, "104", "105", "40,000", "62"]


def test_json() -> None:
    to_dict = TABLES["stages"].to_dict
    plain = to_dict(RERANKED)
    assert (plain["rerank"], plain["k"], plain["t2i"], plain["training_minutes"]) == ("ce", 20, T2I, 61.5)
    assert (plain["model"], plain["documents"], plain["fusion"], plain["method"]) == (
        *("be", "dense", "none", None),
    )
    assert (plain["photos"], plain["photo_bytes"], plain["speed_up"]) == (30, 40_000, 2)
    assert (plain["training_steps"], plain["mean_recall"]) == (9, REPORT.mean_recall)
    assert plain["seconds"]["rerank"] == pytest.approx(0.1)
    assert to_dict(PAIRS)["t2i"] is None


@pytest.mark.parametrize("table", OF_STAGES, ids=lambda table: table.name)
def test_rows_of_all_are_alike_as_json(table: Table) -> None:
    assert table.to_dict(ALONE) == TABLES["stages"].to_dict(ALONE)
    assert table.measure in ("stages", "evaluations")


def test_what_only_some_tables_have_as_json() -> None:
    to_dict = TABLES["stages"].to_dict
    seconds = Response(np.array([[0.1, 0.3, 0]]), 1.0)
    evaluation = Evaluation(encode=2.0, search=3.0, extrapolated=7)
    row = replace(ALONE, queries=50, response=seconds, languages={"de": REPORT}, evaluation=evaluation)
    plain = to_dict(row)
    assert plain["total_seconds"] == pytest.approx(20)
    assert plain["languages"] == {"de": {"t2i": T2I, "i2t": REPORT.i2t, "mean_recall": REPORT.mean_recall}}
    assert plain["evaluation"] == {
        **{"total": 5.0, "encode": 2.0, "search": 3.0, "rerank": 0.0, "extrapolated": 7},
    }
    assert (to_dict(PAIRS)["evaluation"], to_dict(PAIRS)["languages"]) == (None, None)
    assert plain["average_recall"] == pytest.approx(plain["mean_recall"])


LINES = """
    one | 1 2.5  - 4
    two, k=3 | - -  3_ms 7
"""


def test_lines_of_several_settings() -> None:
    first, second, third = quote(("a", "b"), LINES, "here", "there")
    assert [str(line) for line in (first, second, third)] == [
        *("paper: one, here", "paper: one, there", "paper: two, k=3, there"),
    ]
    assert (first.figures, second.figures, third.figures) == (
        *({"a": 1, "b": 2.5}, {"b": 4}, {"a": "3 ms", "b": 7}),
    )
    assert second.to_dict() == {"model": "one", "setting": "there", "figures": {"b": 4.0}}


def test_lines_without_a_setting() -> None:
    [line] = quote(("a", "b"), "three | 1 2")
    assert (str(line), line.figures) == ("paper: three", {"a": 1, "b": 2})


def test_each_figure_has_a_key() -> None:
    with pytest.raises(AssertionError, match="one"):
        quote(("a", "b"), "one | 1 2 3")
