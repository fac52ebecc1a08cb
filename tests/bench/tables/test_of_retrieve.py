"""The tables of Retrieve Fast, Rerank Smart."""

from dataclasses import replace

from lexlip.bench.tables import TABLES
from lexlip.bench.tables.row import Evaluation, Quoted, Row
from lexlip.measure.recalls import Report
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


def quoted(number: int) -> tuple[Quoted, ...]:
    return TABLES[f"retrieve-{number}"].quoted


def by_name(lines: tuple[Quoted, ...]) -> dict[str, list[float | str]]:
    return {str(line).removeprefix("paper: "): list(line.figures.values()) for line in lines}


def test_recalls_by_collection() -> None:
    one = by_name(quoted(1))
    assert one["VSE++, COCO 5k"] == [43.9, 59.4, 72.4, 41.3, 71.1, 81.2]
    assert one["Joint+Coop OSCAR, COCO 5k"] == [54.7, 81.3, 88.9, 70.8, 91.0, 95.2]
    assert one["CE VILLA, Flickr30k 1k"] == [74.7, 92.9, 95.8, 86.6, 97.9, 99.2]
    assert "CE VILLA, COCO 5k" not in one
    assert one["VisualSparta, COCO 5k"] == [44.4, 72.8, 82.4]  # text to image alone
    five = by_name(quoted(5))
    assert five["BE OSCAR, second block"] == [40.6, 68.5, 78.1, 62.5, 87.7, 93.3]
    six = by_name(quoted(6))
    assert six["CLIP, CC 14k"] == [30.8, 52.7, 61.3, 32.1, 53.9, 63.0]
    assert six["CE UNITER, Flickr30k 1k"] == [66.2, 88.4, 92.9, 80.7, 95.7, 98.0]
    assert len(six) == 6 + 7 + 4


def test_languages_and_their_averages() -> None:
    for lines, first in ((quoted(2), 0), (quoted(7), 1)):
        for line in lines:
            *languages, average = (float(figure) for figure in line.figures.values())
            assert list(line.figures) == ["en", "de", "fr", "cs", "average"]
            assert abs(sum(languages[first:]) / len(languages[first:]) - average) < 0.11
    assert by_name(quoted(2))["Joint+Coop M3P"] == [83.0, 79.2, 75.9, 74.0, 78.0]
    assert by_name(quoted(7))["CE M3P (Ni et al., 2021)"] == [86.0, 48.8, 39.4, 38.8, 42.3]


def test_times() -> None:
    three = [(line.name, line.setting, *line.figures.values()) for line in quoted(3)]
    assert ("BE", "NVIDIA V100", 50_000, "16 ms") in three
    assert ("Sep/Joint+Coop", "CPU", 1_000_000, "13 s") in three
    assert ("CE", "CPU", 50_000, "2.4 h") in three
    four = [(line.name, *line.figures.values()) for line in quoted(4)]
    assert ("CE", 100_000, "2.3 a*") in four
    assert ("Sep/Joint+Coop", 1_000, "5 min") in four
    assert (len(three), len(four)) == (12, 9)


def test_candidates_and_fusions() -> None:
    eight, nine = by_name(quoted(8)), by_name(quoted(9))
    assert eight["Sep+Coop, k=20, COCO 1k"] == [75.3, 95.2, 98.1, 87.9, 98.9, 99.8]
    assert eight["Joint+Coop, k=50, Flickr30k"] == [76.5, 93.5, 96.5, 89.1, 98.0, 98.9]
    assert nine["Joint+Coop, norm_add, λ = 0.5"] == [72.5, 92.0, 95.2, 87.3, 97.9, 99.0]
    assert nine["Sep+Coop"] == eight["Sep+Coop, k=20, Flickr30k"]
    assert (len(eight), len(nine)) == (18, 14)
