"""Tables 1, 2 and 3 of the LexLIP paper."""

from typing import Any

from lexlip.bench.tables.of_lexlip import TABLES
from lexlip.bench.tables.row import IndexSize, Row
from lexlip.measure.evaluate import Report
from tests.bench.tables.some_table import cells
from tests.training.run_folders import validation

ONE, TWO, THREE = TABLES
WORDS = Report.from_dict(validation(12.345))
RECALLS = {"R@1": 1.0, "R@5": 25.04, "R@10": 50.0}


def system(**changes: Any) -> Row:
    size = IndexSize(megabytes=0.25, megabytes_without_ids=0.1, accounted=96.2)
    given = {"index": size, "photos": 1000, "photo_bytes": 250.0, "qps": 10.0, "t2i": RECALLS}
    return Row(**{"model": "LexLIP", "documents": "top-32", **given, **changes})


def test_a_row_of_table_2() -> None:
    heading, line, bare = cells(TWO, [system(qps=1234.5), system(qps=9.96, documents="top-9")])
    assert heading == [
        *("system", "documents", "MB", "no ids", "B/photo", "real", "QPS"),
        *("T2I R@1", "R@5", "R@10", "I2T R@1", "R@5", "R@10", "paper MB", "paper QPS", "paper R@1"),
    ]
    assert line == [
        *("LexLIP", "top-32", "0.250", "0.100", "96", "250", "1,234"),
        *("1.0", "25.0", "50.0", "-", "-", "-", "71.0", "249", "42.0"),
    ]
    assert bare[6:] == ["9.96", "1.0", "25.0", "50.0"] + ["-"] * 6


def test_a_row_of_table_2_as_json() -> None:
    assert TWO.to_dict(system()) == {
        "system": "LexLIP",
        "documents": "top-32",
        "photos": 1000,
        "megabytes": 0.25,
        "megabytes_without_ids": 0.1,
        "photo_bytes_by_the_papers_accounting": 96.2,
        "photo_bytes": 250,
        "qps": 10.0,
        "t2i": RECALLS,
        "i2t": None,
        "paper": {"megabytes": 71, "qps": 249, "recall": 42.0},
    }


def test_a_system_that_could_not_be_measured() -> None:
    bm25 = Row(model="BM25", documents="captions")
    missing = TWO.to_dict(bm25)
    assert {key for key, value in missing.items() if value is not None} == {"system", "documents", "paper"}
    assert TWO.to_dict(Row(model="LexLIP", documents="top-9"))["paper"] is None
    assert cells(TWO, [bm25])[1] == ["BM25", "captions"] + ["-"] * 11 + ["195", "780", "-"]


def test_rows_of_models_as_json() -> None:
    row = Row(model="a", documents="all", report=WORDS, method="LexLIP")
    expected = {"model": "a", "method": "LexLIP", "documents": "all", **WORDS.to_dict()}
    assert THREE.to_dict(row) == expected
    plain = ONE.to_dict(Row(model="a", documents="all", report=WORDS))
    assert "method" not in plain
    assert plain["mean_recall"] == WORDS.mean_recall


def test_every_table_says_where_the_paper_s_figures_are() -> None:
    for number, table in enumerate(TABLES, 1):
        assert table.name == str(number)
        assert f"Table {number} (arXiv 2302.02908)" in str(table.paper)
