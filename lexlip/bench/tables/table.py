"""What a table is: everything about it in one definition, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lexlip.bench.tables.columns import LABELS, UNKNOWN, Column, figure
from lexlip.bench.tables.quoted import Quoted
from lexlip.bench.tables.row import CUTOFFS, Row

Use = Literal["never", "may", "must"]
Ablations = Literal["lexlip", "vldeformer", "objectives", "towers", "training photos", "layers"]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table that `lexlip table NAME` prints.

    Attributes:
        name: as in `lexlip table NAME`.
        title: what it shows.
        measure: how its rows are measured: "models" by `models.py`, "systems" by `systems.py`, "stages" by
            `stages.py`, and "evaluations" by `evaluations.py`.
        columns: after those that say what a row is.
        labels: those that say what a row is.
        paper: where the figures to compare with are: table and paper; None: there are none.
        published: figures that the authors also give with their code or in the abstract, in a sentence.
        quoted: lines of the paper's own table, shown under one's own.
        figures: the paper's own figures by (model, documents), shown in columns beside one's own.
        figure_headings: of these columns, by the key in `figures`.
        to_dict: a row for `--json`.
        ablations: rows say what is varied, as `lexlip.bench.tables.models.methods_of` finds it.
        several: rows are measured on several sources: one line for each, or a column for each language.
        recall: recall is measured.
        cutoffs: at how many hits.
        folds: into how many parts photos are divided, one row each, by default; empty: they never are.
        response: the response to single queries is measured.
        total: rows say how many queries there are in a pool of so many photos.
        pairs: the cross-encoder alone has a row.
        reranks: whether there must be a reranker.
        ks: candidates that are reranked, one row each, by default.
        fusions: see `lexlip.search.fusion.fuse`; one row each, by default.
        pool: whether there must be further photos to search among.
        sizes: photos in the index while response is measured, by default; empty: those at hand.
        plot: the response can be drawn.
        queries_only: the pool is the photos that are queries, so that all pairs can be scored.
    """

    name: str
    title: str
    measure: Literal["models", "systems", "stages", "evaluations"] = "stages"
    columns: tuple[Column, ...]
    labels: tuple[Column, ...] = LABELS
    paper: str | None = None
    published: str | None = None
    quoted: tuple[Quoted, ...] = ()
    figures: Mapping[tuple[str, str], Mapping[str, float | None]] = field(default_factory=dict)
    figure_headings: Mapping[str, str] = field(default_factory=dict)
    to_dict: Callable[[Row], dict[str, Any]]
    ablations: Ablations | None = None
    several: Literal["collections", "languages"] | None = None
    recall: bool = True
    cutoffs: tuple[int, ...] = CUTOFFS
    folds: tuple[int, ...] = ()
    response: bool = False
    total: bool = False
    pairs: bool = False
    reranks: Use = "may"
    ks: tuple[int, ...] = (20,)
    fusions: tuple[str, ...] = ("none",)
    pool: Use = "never"
    sizes: tuple[int, ...] = ()
    plot: bool = False
    queries_only: bool = False

    def shown(self, rows: list[Row]) -> list[Column]:
        """Return the columns that the table shows of these rows."""
        published = [self._published(key, heading) for key, heading in self.figure_headings.items()]
        return [column for column in (*self.labels, *self.columns, *published) if column.shown(rows)]

    def _published(self, key: str, heading: str) -> Column:
        """Return a column of the paper's own figures."""

        def cell(row: Row) -> str:
            number = self.figures.get((row.model, row.documents), {}).get(key)
            return UNKNOWN if number is None else figure(number)

        return Column(heading, cell)
