"""The tables of Retrieve Fast, Rerank Smart."""

from dataclasses import replace

from lexlip.bench.tables.definitions import TABLES
from lexlip.bench.tables.row import Evaluation, Row
from lexlip.measure.evaluate import Report
from tests.bench.tables.some_table import ALONE, RERANKED, cells
from tests.training.run_folders import validation


def test_milliseconds_in_pools_of_several_sizes() -> None:
    heading, line = cells(TABLES["retrieve-3"], [replace(ALONE, photos=50_000)])
    assert heading[2:] == ["photos", "ms a query", "encode", "search", "rerank"]
    assert line[2:] == ["50,000", "4.00", "1.00", "3.00", "0"]


def test_fusions_are_named_where_they_differ() -> None:
    heading, *lines = cells(TABLES["retrieve-9"], [ALONE, RERANKED, replace(RERANKED, fusion="add")])
    assert heading[:5] == ["model", "reranked by", "fusion", "documents", "k"]
    assert [line[2] for line in lines] == ["-", "none", "add"]


def test_a_column_for_each_language() -> None:
    languages = {name: Report.from_dict(validation(recall)) for name, recall in (("en", 60), ("de", 20))}
    row = Row(model="be", documents="dense", languages={**languages, "fr": Report.from_dict(validation(10))})
    heading, line = cells(TABLES["retrieve-2"], [row])
    assert heading[2:] == ["en", "de", "fr", "cs", "average"]
    assert line[2:] == ["60.0", "20.0", "10.0", "-", "30.0"]
    heading, line = cells(TABLES["retrieve-7"], [replace(row, trained_on="flickr.tar")])
    assert heading[-2:] == ["trained on", "average"]
    assert line[-2:] == ["flickr.tar", "15.0"]  # without English


def test_collections() -> None:
    row = replace(ALONE, collection="coco.tar", trained_on="flickr.tar")
    heading, line, other = cells(TABLES["retrieve-6"], [row, ALONE])
    assert heading[2:5] == ["photos of", "trained on", "photos"]
    assert line[2:5] == ["coco.tar", "flickr.tar", "30"]
    assert other[2:4] == ["-", "-"]


def test_whole_evaluations() -> None:
    measured = Evaluation(encode=1.0, search=2.0)
    rows = [replace(ALONE, evaluation=measured), replace(ALONE, evaluation=replace(measured, extrapolated=5))]
    heading, line, more = cells(TABLES["retrieve-4"], rows)
    assert heading[2:] == ["photos", "total s", "encode", "search", "rerank"]
    assert line[2:] == ["30", "3.00", "1.00", "2.00", "0"]
    assert more[3:] == ["≈3.00", "≈1.00", "≈2.00", "≈0"]
