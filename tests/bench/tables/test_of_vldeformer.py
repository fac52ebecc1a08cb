"""The tables of VLDeformer."""

from dataclasses import replace

import numpy as np

from lexlip.bench.tables import TABLES
from tests.bench.tables.some_table import ALONE, PAIRS, cells


def test_single_queries_and_memory() -> None:
    heading, line = cells(TABLES["vldeformer-4"], [ALONE])
    assert heading[2:] == ["mean ms", "min ms", "max ms", "P95 ms", "P99.99 ms", "MB"]
    milliseconds = [4, 3, 5, np.percentile([3, 5], 95), np.percentile([3, 5], 99.99)]
    assert line[2:] == [*(f"{value:#.3g}" for value in milliseconds), "512"]


def test_seconds_of_all_queries() -> None:
    rows = [replace(PAIRS, queries=150), replace(ALONE, photos=1000, queries=5000)]
    heading, pairs, alone = cells(TABLES["vldeformer-figure-5"], rows)
    assert heading[2:] == ["photos", "queries", "s a query", "total s"]
    assert pairs[2:] == ["30", "150", "≈2.00", "≈300"]
    assert alone[2:] == ["1,000", "5,000", "0.00400", "20.0"]


def test_folds() -> None:
    heading, line, _ = cells(TABLES["vldeformer-2"], [replace(ALONE, folds=5), replace(ALONE, folds=1)])
    assert heading[2:5] == ["folds", "photos", "T2I R@1"]
    assert line[2:5] == ["5", "30", "1.0"]
    assert "folds" not in cells(TABLES["vldeformer-5"], [replace(ALONE, folds=1)])[0]


def test_the_paper_s_figures() -> None:
    lines = {str(line): list(line.figures.values()) for line in TABLES["vldeformer-2"].quoted}
    assert lines["paper: VLDeformer, COCO 1k"] == [89.2, 98.9, 99.9, 75.9, 95.4, 98.0]
    assert lines["paper: VLDeformer, COCO 5k"] == [71.9, 91.8, 96.2, 54.7, 81.0, 88.6]
    [image] = [line for line in TABLES["vldeformer-2"].quoted if str(line) == "paper: VLDeformer, COCO 1k"]
    shown = [column.quoted(image) for column in TABLES["vldeformer-2"].columns]
    assert shown[2:] == ["75.9", "95.4", "98.0", "89.2", "98.9", "99.9", "–"]  # T2I is image retrieval
    ablations = {line.name: list(line.figures.values()) for line in TABLES["vldeformer-5"].quoted}
    assert ablations["w/o contrastive"] == [72.5, 95.8, 99.0, 60.7, 90.2, 96.2]
    assert ablations["w/o decompose †"] == [0.3, 1.0, 2.0, 0.1, 0.2, 1.6]
    batches = {line.name: line.figures for line in TABLES["vldeformer-4"].quoted}
    assert batches["VinVL, batch size 250"] == {
        **{"mean": 758, "min": 632, "max": 16634, "p95": 846, "p99.99": 10567},
        "memory": "3.66 as printed",
    }
    last = [column.quoted(TABLES["vldeformer-4"].quoted[-1]) for column in TABLES["vldeformer-4"].columns]
    assert last == ["16", "15", "382", "17", "33", "1.60 as printed"]
