"""Rows measured on several sources: one for each collection, or one with a column for each language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lexlip.bench.tables.query_pool import QueryPool
from lexlip.bench.tables.row import Row
from lexlip.bench.tables.run_labels import trained_on
from lexlip.bench.tables.stages import Plan, measure_stages
from lexlip.measure.evaluate import Report


def measure_collections(plan: Plan, pools: Mapping[str, QueryPool]) -> list[Row]:
    """Return the rows of `measure_stages` on one collection after another.

    Args:
        plan: what is measured.
        pools: photos by the collection's name.
    """
    return [
        replace(row, collection=name, trained_on=trained_on(row.model))
        for name, pool in pools.items()
        for row in measure_stages(plan, pool)
    ]


def measure_languages(plan: Plan, pools: Mapping[str, QueryPool]) -> list[Row]:
    """Return the rows of `measure_stages`, each with what it measured with the captions of every language.

    Args:
        plan: what is measured.
        pools: photos with captions in one language each, by language.
    """
    rows: dict[tuple[Any, ...], Row] = {}
    reports: dict[tuple[Any, ...], dict[str, Report]] = {}
    for language, pool in pools.items():
        settings = replace(plan.settings, language=language)
        for row in measure_stages(replace(plan, settings=settings), pool):
            key = (row.model, row.documents, row.reranker, row.k, row.fusion)
            rows.setdefault(key, row)
            if row.report is not None:
                reports.setdefault(key, {})[language] = row.report
    return [
        replace(
            row, report=None, t2i=None, i2t=None, trained_on=trained_on(row.model), languages=reports[key]
        )
        for key, row in rows.items()
    ]
