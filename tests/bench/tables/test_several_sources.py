from dataclasses import replace
from typing import Any

import pytest

from lexlip.bench.tables import several_sources as module
from lexlip.bench.tables.query_pool import QueryPool, make_query_pool
from lexlip.bench.tables.row import Row
from lexlip.bench.tables.several_sources import measure_collections, measure_languages
from lexlip.bench.tables.stages import Plan
from lexlip.data import Scenes
from tests.bench.tables.some_table import ALONE, REPORT, RERANKED, some_table

PLAN = Plan(table=some_table(), models=["be"])
POOLS = {name: make_query_pool(Scenes(4, seed=seed)) for seed, name in enumerate(("one", "two"))}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, QueryPool]]:
    """The languages and pools that were measured; each finds more than the one before."""
    seen: list[tuple[str, QueryPool]] = []

    def measure(plan: Any, pool: QueryPool) -> list[Row]:
        seen.append((plan.settings.language, pool))
        report = replace(REPORT, t2i={**REPORT.t2i, "R@1": float(len(seen))})
        return [replace(ALONE, report=report), replace(RERANKED, report=report)]

    monkeypatch.setattr(module, "measure_stages", measure)
    return seen


def test_collections_one_after_another(measured: list[tuple[str, QueryPool]]) -> None:
    rows = measure_collections(PLAN, POOLS)
    assert [(row.collection, row.k, row.t2i and row.t2i["R@1"]) for row in rows] == [
        *(("one", None, 1), ("one", 20, 1), ("two", None, 2), ("two", 20, 2)),
    ]
    assert [pool for _, pool in measured] == list(POOLS.values())
    assert {row.trained_on for row in rows} == {None}


def test_a_row_has_all_languages(measured: list[tuple[str, QueryPool]]) -> None:
    alone, reranked = measure_languages(PLAN, {"en": POOLS["one"], "de": POOLS["two"]})
    assert (alone.k, reranked.k) == (None, 20)
    for row in (alone, reranked):
        assert row.languages is not None
        assert {name: report.t2i["R@1"] for name, report in row.languages.items()} == {"en": 1, "de": 2}
        assert (row.report, row.t2i, row.i2t) == (None, None, None)
    assert measured == [("en", POOLS["one"]), ("de", POOLS["two"])]  # bm25 stems words of a language
