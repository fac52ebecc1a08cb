"""`lexlip table stages`."""

from dataclasses import replace

import numpy as np
import pytest

from lexlip.bench.response import Response
from lexlip.bench.tables.definitions import TABLES
from lexlip.bench.tables.row import Evaluation
from lexlip.bench.tables.table import Table
from tests.bench.tables.some_table import ALONE, PAIRS, REPORT, RERANKED, T2I, cells

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
