"""A table without columns of its own, and rows to show in tables."""

from typing import Any

import numpy as np

from lexlip.bench.response import Response
from lexlip.bench.tables.row import Row
from lexlip.bench.tables.table import Table
from lexlip.measure.recalls import Report
from lexlip.training.run_folder import Training


def some_table(**changes: Any) -> Table:
    return Table(**{"name": "test", "title": "A table.", "columns": (), "to_dict": vars, **changes})


T2I, I2T = {"R@1": 1.0, "R@5": 25.04, "R@10": 50.0}, {"R@1": 2.0, "R@5": 30.0, "R@10": 60.0}
REPORT = Report(30, 150, T2I, I2T, None, None, None, [])
SECONDS = np.array([[0.001, 0.002, 0], [0.001, 0.004, 0]])

ALONE = Row(
    model="be",
    documents="dense",
    photos=30,
    report=REPORT,
    response=Response(SECONDS, 512.4),
    photo_bytes=1536.4,
    speed_up=8,
)
RERANKED = Row(
    model="be",
    documents="dense",
    photos=30,
    reranker="ce",
    k=20,
    fusion="none",
    report=REPORT,
    response=Response(SECONDS + [0, 0, 0.1], 900),
    speed_up=2,
    photo_bytes=40_000,
    training=Training(9, 61.5),
)
PAIRS = Row(
    model="ce",
    documents="pairs",
    photos=30,
    response=Response(np.array([[0, 0, 2.0]]), 800, scored=10),
    speed_up=1,
)


def cells(table: Table, rows: list[Row]) -> list[list[str]]:
    """What a table shows: the headings, and a line for each row."""
    columns = table.shown(rows)
    return [
        [column.heading for column in columns],
        *([column.cell(row) for column in columns] for row in rows),
    ]
