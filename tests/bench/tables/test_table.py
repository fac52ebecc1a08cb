import sys
from pathlib import Path

import pytest

from lexlip.bench.tables import TABLES
from lexlip.bench.tables.columns import DOCUMENTS, MODEL, PHOTOS, RERANKER, K
from lexlip.bench.tables.notes import notes
from lexlip.bench.tables.row import Row
from lexlip.bench.tables.stages import Plan, make_query_pool
from lexlip.bench.tables.table import as_markdown, as_text, check_picture, draw_response
from lexlip.data import Scenes
from lexlip.errors import ConfigError, what_is_missing
from lexlip.measure.recalls import Report
from tests.bench.tables.some_table import ALONE, PAIRS, RERANKED, cells, some_table
from tests.training.run_folders import validation


def test_labels_come_first_and_what_no_row_has_is_left_out() -> None:
    table = some_table(columns=(PHOTOS,))
    assert cells(table, [ALONE, PAIRS]) == [
        ["model", "documents", "photos"],
        ["be", "dense", "30"],
        ["ce", "pairs", "30"],
    ]
    assert table.shown([ALONE, RERANKED]) == [MODEL, RERANKER, DOCUMENTS, K, PHOTOS]


def test_figures_of_the_paper_stand_beside_one_s_own() -> None:
    table = some_table(
        labels=(MODEL,),
        figures={("be", "dense"): {"qps": 19.7, "recall": None}},
        figure_headings={"qps": "paper QPS", "recall": "paper R@1"},
    )
    assert cells(table, [ALONE, PAIRS]) == [
        ["model", "paper QPS", "paper R@1"],
        ["be", "19.7", "–"],
        ["ce", "–", "–"],
    ]


OF_STAGES = ("stages", "evaluations")
POOL = make_query_pool(Scenes(30, seed=0), queries=10, captions=2)


def test_all_tables_by_name() -> None:
    assert list(TABLES) == [
        *("1", "2", "3", "stages", *(f"lightningdot-{number}" for number in range(1, 7))),
        *("vldeformer-2", "vldeformer-4", "vldeformer-5", "vldeformer-figure-5"),
        *(f"retrieve-{number}" for number in range(1, 10)),
        *("retrieve-figure-3", "retrieve-figure-4"),
    ]
    assert all(table.name == name for name, table in TABLES.items())


@pytest.mark.parametrize("name", TABLES)
def test_every_table_can_be_printed(name: str) -> None:
    table, rows = TABLES[name], [PAIRS, ALONE, RERANKED]
    assert len({len(line) for line in cells(table, rows)}) == 1
    columns = table.shown(rows)
    quoted = len(table.quoted)
    assert len(as_text(columns, rows, table.quoted).splitlines()) == 4 + quoted
    assert len(as_markdown(columns, rows, table.quoted).splitlines()) == 5 + quoted


@pytest.mark.parametrize("name", TABLES)
def test_every_figure_of_a_paper_has_its_column(name: str) -> None:
    table = TABLES[name]
    keys = {column.key for column in table.columns}
    assert {key for line in table.quoted for key in line.figures} <= keys
    assert len(set(map(str, table.quoted))) == len(table.quoted) or name in ("retrieve-3", "retrieve-4")
    assert table.quoted or table.figures or name in WITHOUT_FIGURES


WITHOUT_FIGURES = {
    *("stages", "lightningdot-4", "lightningdot-5", "lightningdot-6", "vldeformer-figure-5"),
    *("retrieve-figure-3", "retrieve-figure-4"),
}

"""Of these the papers' figures are not at hand."""


@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if table.measure in OF_STAGES])
def test_every_table_of_stages_can_be_explained(name: str) -> None:
    plan = Plan(table=TABLES[name], models=["be"])
    said = notes(plan, POOL, [PAIRS, ALONE, RERANKED], "photos")
    assert said[0] == (
        "Measured with 10 photos and 20 captions of photos, in a pool of 30 photos and 60 captions."
    )
    if name != "stages":
        assert "arXiv" in " ".join(said[-2:])


WORDS = Report.from_dict(validation(12.345))
DENSE = Report.from_dict({**validation(100), "terms_image": None, "terms_text": None, "words@10": None})


def test_aligned_text() -> None:
    rows = [
        Row(model="runs/a", documents="top-32", report=WORDS),
        Row(model="d", documents="dense", report=DENSE),
    ]
    assert as_text(TABLES["1"].shown(rows), rows) == (
        "model   documents  T2I R@1    R@5   R@10  I2T R@1    R@5   R@10   mean  terms  words@10  words P@5\n"
        "runs/a  top-32        12.3   12.3   12.3     12.3   12.3   12.3   12.3   20.0     0.250          -\n"
        "d       dense        100.0  100.0  100.0    100.0  100.0  100.0  100.0      -         -          -"
    )


def test_markdown_with_methods() -> None:
    rows = [
        Row(model="a|b", documents="all", report=WORDS, method="LexLIP"),
        Row(model="d", documents="dense", report=DENSE, method="Dense without L_i2t"),
    ]
    assert as_markdown(TABLES["3"].shown(rows), rows).splitlines() == [
        "| model | method | documents | T2I R@1 | R@5 | R@10 | I2T R@1 | R@5 | R@10 | mean | terms |"
        " words@10 | words P@5 |",
        "| --- | --- | --- |" + " ---: |" * 10,
        "| a\\|b | LexLIP | all |" + " 12.3 |" * 7 + " 20.0 | 0.250 | - |",
        "| d | Dense without L_i2t | dense |" + " 100.0 |" * 7 + " - | - | - |",
    ]


def test_a_picture_has_a_line_for_each_row_that_was_timed(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures are optional: pip install matplotlib")
    untimed = Row(model="untimed", documents="dense")
    draw_response([PAIRS, ALONE, RERANKED, untimed], tmp_path / "plot.svg")
    text = (tmp_path / "plot.svg").read_text()
    assert "<svg" in text
    for label in ("ce (pairs)", "be (dense)", "be (dense), 20 reranked by ce"):
        assert f"<!-- {label} -->" in text
    assert "untimed" not in text


def test_what_cannot_be_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures are optional: pip install matplotlib")
    check_picture(tmp_path / "plot.PNG")
    with pytest.raises(ConfigError, match=r"plot.doc: name it \."):
        check_picture(tmp_path / "plot.doc")
    with pytest.raises(ConfigError, match="its folder does not exist"):
        check_picture(tmp_path / "nowhere" / "plot.svg")
    with pytest.raises(ConfigError, match="cannot write the picture to"):
        draw_response([ALONE], tmp_path / "nowhere" / "plot.svg")


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ModuleNotFoundError) as error:
        check_picture(tmp_path / "plot.svg")
    assert what_is_missing(error.value) == "this needs matplotlib: pip install 'lexlip[draw]'"
