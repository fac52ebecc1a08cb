from dataclasses import replace

import pytest

from lexlip.bench.tables import columns
from lexlip.bench.tables.columns import Column, figure, number_column, seconds_column
from lexlip.bench.tables.row import IndexSize, Row
from lexlip.measure.recalls import Report
from tests.bench.tables.some_table import ALONE, PAIRS, REPORT, RERANKED
from tests.training.run_folders import validation

BARE = Row(model="be", documents="dense")
WORDS = Row(model="mini", documents="top-32", report=Report.from_dict(validation(12.345)))
SHORT = replace(WORDS, report=replace(WORDS.report, short_queries={"agreed_words": {"P@5": 0.625}}))
INDEX = IndexSize(megabytes=0.25, megabytes_without_ids=0.1, accounted=96.2)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "-"),
        (0, "0"),
        (0.00123456, "0.00123"),
        (12.345, "12.3"),
        (99.94, "99.9"),
        (99.99, "100"),
        (1234.5, "1,234"),
    ],
)
def test_three_digits(number: float | None, text: str) -> None:
    assert figure(number) == text


def test_a_column_of_numbers() -> None:
    photos = number_column("photos", lambda row: row.photos)
    assert [photos.cell(row) for row in (BARE, ALONE)] == ["-", "30.0"]
    assert number_column("photos", lambda row: row.photos, ",").cell(replace(ALONE, photos=1234)) == "1,234"
    assert not photos.is_text


def test_a_column_of_seconds() -> None:
    mean, encode = seconds_column("s", "mean"), seconds_column("ms", "encode", 1000)
    assert [mean.cell(row) for row in (BARE, ALONE, RERANKED)] == ["-", "0.00400", "0.104"]
    assert [encode.cell(row) for row in (BARE, ALONE)] == ["-", "1.00"]


def test_what_is_extrapolated_is_marked() -> None:
    assert [seconds_column("s", stage).cell(PAIRS) for stage in ("mean", "search", "rerank")] == [
        *("≈2.00", "≈0", "≈2.00")
    ]
    assert seconds_column("s", "encode").cell(PAIRS) == "0"  # no photo is encoded


@pytest.mark.parametrize(
    ("column", "row"),
    [
        (columns.METHOD, replace(BARE, method="full")),
        (columns.RERANKER, RERANKED),
        (columns.K, RERANKED),
    ],
)
def test_a_label_that_no_row_has_is_left_out(column: Column, row: Row) -> None:
    assert not column.shown([BARE, BARE])
    assert column.shown([BARE, row])
    assert column.cell(BARE) == "-"


def test_fusions_are_shown_where_they_differ() -> None:
    added = replace(RERANKED, fusion="add")
    assert not columns.FUSION.shown([ALONE, RERANKED])
    assert columns.FUSION.shown([ALONE, RERANKED, added])
    assert [columns.FUSION.cell(row) for row in (ALONE, RERANKED, added)] == ["-", "none", "add"]


@pytest.mark.parametrize(
    ("column", "row", "text"),
    [
        (columns.MEAN, ALONE, f"{REPORT.mean_recall:.1f}"),
        (columns.AR, ALONE, f"{REPORT.mean_recall:.1f}"),
        (columns.WORDS_KEPT, WORDS, "20.0"),
        (columns.WORDS_AT_10, WORDS, "0.250"),
        (columns.AGREED_WORDS, SHORT, "0.625"),
        (columns.PHOTOS, replace(BARE, photos=1234), "1,234"),
        (columns.PHOTO_BYTES, ALONE, "1,536"),
        (columns.MINUTES, RERANKED, "62"),
        (columns.MEMORY, ALONE, "512"),
        (columns.SPEED_UP, ALONE, "8.00x"),
        (columns.QPS, replace(BARE, qps=1234.5), "1,234"),
        (columns.MEGABYTES, replace(BARE, index=INDEX), "0.250"),
        (columns.MEGABYTES_WITHOUT_IDS, replace(BARE, index=INDEX), "0.100"),
        (columns.ACCOUNTED, replace(BARE, index=INDEX), "96"),
        (columns.REAL_BYTES, ALONE, "1536"),
    ],
)
def test_what_a_row_shows(column: Column, row: Row, text: str) -> None:
    assert column.cell(row) == text
    assert column.cell(BARE) == "-"
    assert column.shown([BARE])


def test_six_recalls_in_percent() -> None:
    assert [column.cell(ALONE) for column in columns.RECALLS] == "1.0 25.0 50.0 2.0 30.0 60.0".split()
    assert [column.cell(BARE) for column in columns.RECALLS] == ["-"] * 6
    one_way = replace(BARE, t2i={"R@1": 7.0, "R@5": 8.0, "R@10": 9.0})
    assert [column.cell(one_way) for column in columns.RECALLS] == ["7.0", "8.0", "9.0", "-", "-", "-"]
    assert REPORT.mean_recall == pytest.approx((1 + 25.04 + 50 + 2 + 30 + 60) / 6)
