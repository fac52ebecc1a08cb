"""Tables 1, 2 and 3 of the LexLIP paper."""

from typing import Any

from lexlip.bench.tables.of_lexlip import TABLES
from lexlip.bench.tables.row import IndexSize, Row
from lexlip.measure.recalls import Report
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
        *("T2I R@1", "R@5", "R@10", "I2T R@1", "R@5", "R@10", "paper MB", "paper B/photo", "paper QPS"),
        *("paper R@1", "paper R@5", "paper R@10", "paper I2T R@1", "paper R@5", "paper R@10"),
    ]
    assert line == [
        *("LexLIP", "top-32", "0.250", "0.100", "96", "250", "1,234"),
        *("1.0", "25.0", "50.0", "-", "-", "-", "71.0", "96.0", "249"),
        *("42.0", "59.3", "64.7", "59.4", "83.4", "87.7"),
    ]
    assert bare[6:] == ["9.96", "1.0", "25.0", "50.0", *["-"] * 3, *["–"] * 9]


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
        "paper": {
            **{"megabytes": 71, "photo_bytes": 96, "qps": 249.06, "recall": 42.0, "t2i R@5": 59.3},
            **{"t2i R@10": 64.7, "i2t R@1": 59.4, "i2t R@5": 83.4, "i2t R@10": 87.7},
        },
    }


def test_a_system_that_could_not_be_measured() -> None:
    bm25 = Row(model="BM25", documents="captions")
    missing = TWO.to_dict(bm25)
    assert {key for key, value in missing.items() if value is not None} == {"system", "documents", "paper"}
    assert TWO.to_dict(Row(model="LexLIP", documents="top-9"))["paper"] is None
    figures = ["195", "195", "780", "16.8", "27.3", "31.9", "34.0", "50.7", "58.2"]
    assert cells(TWO, [bm25])[1] == ["BM25", "captions", *["-"] * 11, *figures]
    clip = TWO.to_dict(Row(model="CLIP, one by one", documents="dense"))["paper"]
    assert list(clip.values()) == [2000, 1998, 3.6, 14.0, 28.7, 36.6, 35.4, 59.9, 70.0]
    assert TWO.to_dict(Row(model="CLIP, 256 together", documents="dense"))["paper"] is None


def test_a_dense_model_has_clip_s_figures_beside_it() -> None:
    own = Row(model="cls, one by one", documents="dense", counterpart="CLIP, one by one")
    assert TWO.to_dict(own)["system"] == "cls, one by one"
    clip = Row(model="CLIP, one by one", documents="dense")
    assert TWO.to_dict(own)["paper"] == TWO.to_dict(clip)["paper"] is not None
    assert cells(TWO, [own])[1][1:] == cells(TWO, [clip])[1][1:]
    int8 = Row(model="cls, one by one", documents="int8", counterpart="CLIP, one by one")
    assert TWO.to_dict(int8)["paper"] is None


def test_the_paper_s_lines() -> None:
    lines = {str(line): list(line.figures.values()) for line in ONE.quoted}
    assert len(lines) == 9 + 8  # Frozen has none of COCO
    assert lines["paper: LexLIP (4.3M pairs), Flickr30k 1k"] == [76.7, 93.7, 96.8, 89.6, 98.7, 99.6]
    assert lines["paper: LexLIP (14.3M pairs), COCO 5k"] == [53.2, 79.1, 86.7, 70.2, 90.7, 95.2]
    frozen = next(line for line in ONE.quoted if line.name.startswith("Frozen"))
    shown = [column.quoted(frozen) for column in ONE.shown([])]
    assert shown == ["paper: Frozen (5.5M pairs), Flickr30k 1k", "–", "61.0", "87.5", "92.7", *["–"] * 7]


def test_ablations_without_their_tick_marks_have_no_names() -> None:
    assert [line.name for line in THREE.quoted] == [f"row {number}" for number in range(1, 7)]
    assert list(THREE.quoted[0].figures.values()) == [67.5, 89.7, 94.1, 81.3, 96.4, 98.9]
    assert "what each row leaves out is not marked" in str(THREE.paper)


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
