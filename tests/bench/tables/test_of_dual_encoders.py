"""The tables of LightningDOT, of VLDeformer, and of Retrieve Fast, Rerank Smart."""

from dataclasses import replace

import numpy as np
import pytest

from lexlip.bench.tables import TABLES
from lexlip.bench.tables.row import Evaluation, Row
from lexlip.measure.recalls import Ranking, Report
from tests.bench.tables.some_table import ALONE, PAIRS, REPORT, RERANKED, cells
from tests.training.run_folders import validation


def lines_of(name: str) -> dict[str, list[float | str]]:
    """The paper's figures of a table, by its lines."""
    return {str(line).removeprefix("paper: "): [*line.figures.values()] for line in TABLES[name].quoted}


# ---- LightningDOT ----


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


def test_lightningdot_s_figures() -> None:
    one, two = lines_of("lightningdot-1"), lines_of("lightningdot-2")
    assert one["LightningDOT, Flickr30k 1k"][-1] == 89.3
    assert (one["CAAN, Flickr30k 1k"], one["CAAN, COCO 5k"]) == ([79.8], [70.2])
    assert one["LightningDOT, COCO 5k"] == [45.8, 74.6, 83.8, 60.1, 85.1, 91.8, 73.5]
    assert np.mean(one["LightningDOT, COCO 5k"][:6]) == pytest.approx(73.5, abs=0.05)
    assert two == {
        "LightningDOT, Flickr30k 31k": [70.2],
        "LightningDOT, reranked, Flickr30k 31k": [76.2],
        "LightningDOT, COCO 123k": [44.4],
        "LightningDOT, reranked, COCO 123k": [56.4],
    }
    assert [figures for (figures,) in lines_of("lightningdot-3").values()] == [
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


# ---- VLDeformer ----


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


def test_vldeformer_s_figures() -> None:
    two, four, five = (lines_of(f"vldeformer-{number}") for number in (2, 4, 5))
    assert two["VLDeformer, COCO 1k"] == [89.2, 98.9, 99.9, 75.9, 95.4, 98.0]
    assert two["VLDeformer, COCO 5k"] == [71.9, 91.8, 96.2, 54.7, 81.0, 88.6]
    assert five["w/o contrastive"] == [72.5, 95.8, 99.0, 60.7, 90.2, 96.2]
    assert five["w/o decompose †"] == [0.3, 1.0, 2.0, 0.1, 0.2, 1.6]
    assert four["VinVL, batch size 250"] == [758, 632, 16634, 846, 10567, "3.66 as printed"]
    [image] = [line for line in TABLES["vldeformer-2"].quoted if str(line) == "paper: VLDeformer, COCO 1k"]
    shown = [column.quoted(image) for column in TABLES["vldeformer-2"].columns]
    assert shown[2:] == ["75.9", "95.4", "98.0", "89.2", "98.9", "99.9", "–"]  # T2I is image retrieval
    last = [column.quoted(TABLES["vldeformer-4"].quoted[-1]) for column in TABLES["vldeformer-4"].columns]
    assert last == ["16", "15", "382", "17", "33", "1.60 as printed"]


# ---- Retrieve Fast, Rerank Smart ----


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


def test_recalls_by_collection() -> None:
    one = lines_of("retrieve-1")
    assert one["VSE++, COCO 5k"] == [43.9, 59.4, 72.4, 41.3, 71.1, 81.2]
    assert one["Joint+Coop OSCAR, COCO 5k"] == [54.7, 81.3, 88.9, 70.8, 91.0, 95.2]
    assert one["CE VILLA, Flickr30k 1k"] == [74.7, 92.9, 95.8, 86.6, 97.9, 99.2]
    assert "CE VILLA, COCO 5k" not in one
    assert one["VisualSparta, COCO 5k"] == [44.4, 72.8, 82.4]  # text to image alone
    five = lines_of("retrieve-5")
    assert five["BE OSCAR, COCO"] == [40.6, 68.5, 78.1, 62.5, 87.7, 93.3]
    assert five["Sep+Coop OSCAR, Flickr30k"] == [55.5, 75.8, 80.1, 80.5, 93.8, 95.4]
    six = lines_of("retrieve-6")
    assert six["CLIP, CC 14k"] == [30.8, 52.7, 61.3, 32.1, 53.9, 63.0]
    assert six["CE UNITER, Flickr30k 1k"] == [66.2, 88.4, 92.9, 80.7, 95.7, 98.0]
    assert len(six) == 6 + 7 + 4


@pytest.mark.parametrize(("number", "first"), [(2, 0), (7, 1)])
def test_languages_and_their_averages(number: int, first: int) -> None:
    for line in TABLES[f"retrieve-{number}"].quoted:
        assert list(line.figures) == ["en", "de", "fr", "cs", "average"]
    for *languages, average in lines_of(f"retrieve-{number}").values():
        assert np.mean(languages[first:]) == pytest.approx(average, abs=0.11)


def test_the_figures_of_retrieve_fast() -> None:
    assert lines_of("retrieve-2")["Joint+Coop M3P"] == [83.0, 79.2, 75.9, 74.0, 78.0]
    assert lines_of("retrieve-7")["CE M3P (Ni et al., 2021)"] == [86.0, 48.8, 39.4, 38.8, 42.3]
    three, four = (
        [(line.name, line.setting, *line.figures.values()) for line in TABLES[f"retrieve-{number}"].quoted]
        for number in (3, 4)
    )
    assert {
        ("BE", "NVIDIA V100", 50_000, "16 ms"),
        ("Sep/Joint+Coop", "CPU", 1_000_000, "13 s"),
        ("CE", "CPU", 50_000, "2.4 h"),
    } < set(three)
    assert {("CE", "", 100_000, "2.3 a*"), ("Sep/Joint+Coop", "", 1_000, "5 min")} < set(four)
    assert (len(three), len(four)) == (12, 9)
    eight, nine = lines_of("retrieve-8"), lines_of("retrieve-9")
    assert eight["Sep+Coop, k=20, COCO 1k"] == [75.3, 95.2, 98.1, 87.9, 98.9, 99.8]
    assert eight["Joint+Coop, k=50, Flickr30k"] == [76.5, 93.5, 96.5, 89.1, 98.0, 98.9]
    assert nine["Joint+Coop, norm_add, λ = 0.5"] == [72.5, 92.0, 95.2, 87.3, 97.9, 99.0]
    assert nine["Sep+Coop"] == eight["Sep+Coop, k=20, Flickr30k"]
    assert (len(eight), len(nine)) == (18, 14)
