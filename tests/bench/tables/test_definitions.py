import pytest

from lexlip.bench.tables.definitions import TABLES
from lexlip.bench.tables.notes import notes
from lexlip.bench.tables.query_pool import make_query_pool
from lexlip.bench.tables.render import as_markdown, as_text
from lexlip.bench.tables.stages import Plan
from lexlip.data import Scenes
from tests.bench.tables.some_table import ALONE, PAIRS, RERANKED, cells

POOL = make_query_pool(Scenes(30, seed=0), queries=10, captions=2)


def test_all_tables_by_name() -> None:
    assert list(TABLES) == [
        *("1", "2", "3", "stages", "lightningdot-1", "lightningdot-2", "lightningdot-3"),
        *("vldeformer-4", "vldeformer-5"),
        *("retrieve-1", "retrieve-3", "retrieve-5", "retrieve-8", "retrieve-9"),
    ]
    assert all(table.name == name for name, table in TABLES.items())


@pytest.mark.parametrize("name", TABLES)
def test_every_table_can_be_printed(name: str) -> None:
    table, rows = TABLES[name], [PAIRS, ALONE, RERANKED]
    assert len({len(line) for line in cells(table, rows)}) == 1
    columns = table.shown(rows)
    assert len(as_text(columns, rows).splitlines()) == 4
    assert len(as_markdown(columns, rows).splitlines()) == 5


@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if table.measure == "stages"])
def test_every_table_of_stages_can_be_explained(name: str) -> None:
    plan = Plan(table=TABLES[name], models=["be"])
    said = notes(plan, POOL, [PAIRS, ALONE, RERANKED], "photos")
    assert said[0] == (
        "Measured with 10 photos and 20 captions of photos, in a pool of 30 photos and 60 captions."
    )
    if name != "stages":
        assert "arXiv" in " ".join(said[-2:])
