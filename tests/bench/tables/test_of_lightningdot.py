"""The tables of LightningDOT."""

from dataclasses import replace

import pytest

from lexlip.bench.tables import TABLES
from lexlip.measure.recalls import Ranking
from tests.bench.tables.some_table import ALONE, PAIRS, REPORT, cells


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


def test_the_paper_s_figures() -> None:
    lines = {
        str(line): line.figures for number in (1, 2, 3) for line in TABLES[f"lightningdot-{number}"].quoted
    }
    assert lines["paper: LightningDOT, Flickr30k 1k"]["AR"] == 89.3
    assert lines["paper: CAAN, Flickr30k 1k"] == {"AR": 79.8}
    coco = list(lines["paper: LightningDOT, COCO 5k"].values())
    assert coco == [45.8, 74.6, 83.8, 60.1, 85.1, 91.8, 73.5]
    assert sum(coco[:6]) / 6 == pytest.approx(coco[6], abs=0.05)
    assert lines["paper: CAAN, COCO 5k"] == {"AR": 70.2}
    assert lines["paper: LightningDOT, Flickr30k 31k"] == {"AR": 70.2}
    assert lines["paper: LightningDOT, reranked, Flickr30k 31k"] == {"AR": 76.2}
    assert lines["paper: LightningDOT, COCO 123k"] == {"AR": 44.4}
    assert lines["paper: LightningDOT, reranked, COCO 123k"] == {"AR": 56.4}
    assert [line.figures["speed-up"] for line in TABLES["lightningdot-3"].quoted] == [
        *("639x", "46x", "1927x", "95x", "6591x", ">1,000x", "23869x", ">2,000x"),
    ]


def test_recalls_at_5_10_and_20() -> None:
    table = TABLES["lightningdot-2"]
    found = [[str(number) for number in range(20)]] * 4
    t2i = Ranking(["a", "b", "c", "d"], found, [], [{"0"}, {"4"}, {"12"}, {"19"}])
    i2t = Ranking(["a", "b", "c", "d"], found, [], [{"0"}, {"x"}, {"y"}, {"9"}])
    report = replace(REPORT, rankings={"t2i": t2i, "i2t": i2t})
    heading, line = cells(table, [replace(ALONE, report=report, cutoffs=table.cutoffs)])
    assert heading[2:] == ["T2I R@5", "R@10", "R@20", "I2T R@5", "R@10", "R@20", "AR"]
    assert line[2:] == ["50.0", "50.0", "100.0", "25.0", "50.0", "50.0", "54.2"]
