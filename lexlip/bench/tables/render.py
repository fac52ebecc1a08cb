"""Tables as text and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from lexlip.bench.tables.columns import Column
from lexlip.bench.tables.quoted import Quoted
from lexlip.bench.tables.row import Row


def as_text(columns: Sequence[Column], rows: Sequence[Row], quoted: Sequence[Quoted] = ()) -> str:
    """Return aligned columns: text to the left, numbers to the right; a paper's lines come last."""
    cells = _cells(columns, rows, quoted)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for line in cells:
        padded = [
            cell.ljust(width) if column.is_text else cell.rjust(width)
            for column, cell, width in zip(columns, line, widths, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def as_markdown(columns: Sequence[Column], rows: Sequence[Row], quoted: Sequence[Quoted] = ()) -> str:
    """Return a table in GitHub's Markdown."""
    cells = _cells(columns, rows, quoted)
    heading, *lines = [[cell.replace("|", "\\|") for cell in line] for line in cells]
    rule = ["---" if column.is_text else "---:" for column in columns]
    return "\n".join(f"| {' | '.join(line)} |" for line in [heading, rule, *lines])


def _cells(columns: Sequence[Column], rows: Sequence[Row], quoted: Sequence[Quoted]) -> list[list[str]]:
    """Return all cells, the headings first."""
    return [
        [column.heading for column in columns],
        *([column.cell(row) for column in columns] for row in rows),
        *([column.quoted(line) for column in columns] for line in quoted),
    ]
