"""The papers' tables of results, from reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lexlip.evaluation.evaluate import Report

PAPER = {
    1: "The paper's figures, on the test sets of Flickr30k (1k) and MSCOCO (5k), are in its Table 1"
    " (arXiv 2302.02908).",
    3: "The paper's figures are in its Table 3 (arXiv 2302.02908).",
}
"""Where the figures to compare with are to be read."""

RECALLS = ("R@1", "R@5", "R@10")
NONE = "-"


@dataclass(frozen=True)
class Row:
    """One line of a table.

    Attributes:
        model: as the user named it.
        documents: what is kept of a document: "top-32", "all" or "dense".
        report: its figures.
        method: how it differs from the full method; None in a table that does not say.
    """

    model: str
    documents: str
    report: Report
    method: str | None = None

    def to_dict(self) -> dict[str, Any]:
        method = {} if self.method is None else {"method": self.method}
        return {"model": self.model, **method, "documents": self.documents, **self.report.to_dict()}


def cells(rows: Sequence[Row]) -> list[list[str]]:
    """The table as text, its heading first: recalls in percent, terms that an image keeps, words@10."""
    methods = any(row.method is not None for row in rows)
    heading = ["model", *(["method"] if methods else []), "documents"]
    heading += ["T2I R@1", *RECALLS[1:], "I2T R@1", *RECALLS[1:], "mean", "terms", "words@10"]
    lines = [heading]
    for row in rows:
        report = row.report
        recalls = [report.t2i[k] for k in RECALLS] + [report.i2t[k] for k in RECALLS] + [report.mean_recall]
        lines.append(
            [
                row.model,
                *([row.method or NONE] if methods else []),
                row.documents,
                *(f"{recall:.1f}" for recall in recalls),
                NONE if report.terms_kept is None else f"{report.terms_kept:.1f}",
                NONE if report.words_at_10 is None else f"{report.words_at_10:.3f}",
            ]
        )
    return lines


def as_text(table: Sequence[Sequence[str]]) -> str:
    """Aligned columns: words to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    words = table[0].index("documents") + 1
    lines = []
    for line in table:
        padded = [
            cell.ljust(width) if column < words else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def as_markdown(table: Sequence[Sequence[str]]) -> str:
    """A table of GitHub's Markdown."""
    words = table[0].index("documents") + 1
    rule = ["---" if column < words else "---:" for column in range(len(table[0]))]
    escaped = [[cell.replace("|", "\\|") for cell in line] for line in table]
    return "\n".join(f"| {' | '.join(line)} |" for line in [escaped[0], rule, *escaped[1:]])
