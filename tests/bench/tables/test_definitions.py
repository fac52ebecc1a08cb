import pytest

from lexlip.bench.tables.definitions import TABLES
from lexlip.bench.tables.notes import notes
from lexlip.bench.tables.query_pool import make_query_pool
from lexlip.bench.tables.render import as_markdown, as_text
from lexlip.bench.tables.stages import Plan
from lexlip.data import Scenes
from tests.bench.tables.some_table import ALONE, PAIRS, RERANKED, cells

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
