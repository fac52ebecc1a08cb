from dataclasses import replace

import numpy as np
import pytest

from lexlip.bench.response import Response
from lexlip.bench.tables.row import Evaluation, Row
from lexlip.measure.evaluate import Ranking
from tests.bench.tables.some_table import I2T, REPORT, T2I


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
