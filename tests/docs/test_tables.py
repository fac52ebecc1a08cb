"""Tables of figures that pages show have the columns that `lexlip table` prints, under their names."""

from __future__ import annotations

import re

import pytest

from lexlip.bench.tables import TABLES
from tests.conftest import ROOT

SHOWN = {
    ("docs/notes/2026-11-23-stages.md", "| | T2I R@1 / 5 / 10 | I2T R@1 / 5 / 10 | mean | P50"): "stages",
    ("docs/notes/2026-11-22-table-2.md", "| system | documents | MB |"): "2",
}
"""Which table a page shows, by how the heads of its tables begin; others have names of their own."""


def heads(page: str, start: str) -> list[list[str]]:
    """The headings of a page's tables that begin so; "R@1 / 5 / 10" stands for three."""
    text = (ROOT / page).read_text(encoding="utf-8")
    rows = re.findall(rf"^{re.escape(start)}.*(?=\n\|[-:| ]+\|$)", text, re.MULTILINE)
    return [row.replace(" / 5 / 10", " | R@5 | R@10").strip("| ").split(" | ") for row in rows]


@pytest.mark.parametrize(("page", "start"), SHOWN)
def test_a_table_has_the_columns_that_are_printed(page: str, start: str) -> None:
    table = TABLES[SHOWN[page, start]]
    printed = [column.heading for column in (*table.labels, *table.columns)]
    printed += table.figure_headings.values()
    found = heads(page, start)
    assert found
    for headings in found:
        assert headings == [heading for heading in printed if heading in headings]
        assert {column.heading for column in table.columns} <= set(headings)
