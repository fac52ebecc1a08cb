"""`lexlip table stages`, and the tables of the papers about dense dual encoders and cross-encoders."""

from dataclasses import replace

import numpy as np
import pytest

from lexlip.bench.tables.definitions import TABLES
from lexlip.bench.tables.of_stages import TABLES as OF_STAGES
from lexlip.bench.tables.table import Table
from tests.bench.tables.some_table import ALONE, PAIRS, REPORT, RERANKED, T2I, cells


def test_stages() -> None:
    heading, alone, reranked = cells(TABLES["stages"], [ALONE, RERANKED])
    assert heading == [
        *("model", "reranked by", "documents", "k", "T2I R@1", "R@5", "R@10", "I2T R@1", "R@5", "R@10"),
        *("mean", "P50 ms", "P99 ms", "B/photo", "train min"),
    ]
    recalls = ["1.0", "25.0", "50.0", "2.0", "30.0", "60.0", f"{REPORT.mean_recall:.1f}"]
    assert alone == ["be", "-", "dense", "-", *recalls, "4.00", "4.98", "1,536", "-"]
    assert reranked == ["be", "ce", "dense", "20", *recalls, "104", "105", "40,000", "62"]


def test_what_no_row_has_is_left_out() -> None:
    heading, line = cells(TABLES["lightningdot-1"], [ALONE])
    assert heading[:3] == ["model", "documents", "T2I R@1"]
    assert heading[-1] == "AR"
    assert line[:2] == ["be", "dense"]


def test_seconds_and_what_is_extrapolated() -> None:
    heading, *lines = cells(TABLES["lightningdot-3"], [PAIRS, ALONE])
    assert heading[2:] == ["photos", "s a query", "encode", "search", "rerank", "speed-up"]
    assert lines[0] == ["ce", "pairs", "30", "≈2.00", "0", "≈0", "≈2.00", "1.00x"]
    assert lines[1] == ["be", "dense", "30", "0.00400", "0.00100", "0.00300", "0", "8.00x"]


def test_single_queries_and_memory() -> None:
    heading, line = cells(TABLES["vldeformer-4"], [ALONE])
    assert heading[2:] == ["mean ms", "min ms", "max ms", "P95 ms", "P99.99 ms", "MB"]
    milliseconds = [4, 3, 5, np.percentile([3, 5], 95), np.percentile([3, 5], 99.99)]
    assert line[2:] == [*(f"{value:#.3g}" for value in milliseconds), "512"]


def test_milliseconds_in_pools_of_several_sizes() -> None:
    heading, line = cells(TABLES["retrieve-3"], [replace(ALONE, photos=50_000)])
    assert heading[2:] == ["photos", "ms a query", "encode", "search", "rerank"]
    assert line[2:] == ["50,000", "4.00", "1.00", "3.00", "0"]


def test_fusions_are_named_where_they_differ() -> None:
    heading, *lines = cells(TABLES["retrieve-9"], [ALONE, RERANKED, replace(RERANKED, fusion="add")])
    assert heading[:5] == ["model", "reranked by", "fusion", "documents", "k"]
    assert [line[2] for line in lines] == ["-", "none", "add"]


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
    assert table.measure == "stages"
