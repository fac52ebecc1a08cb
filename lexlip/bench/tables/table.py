"""What a table is, everything about it in one definition as data; and how it is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from lexlip.bench.tables.columns import LABELS, UNKNOWN, Column, figure
from lexlip.bench.tables.row import CUTOFFS, Quoted, Row
from lexlip.errors import ConfigError

Use = Literal["never", "may", "must"]
Ablations = Literal["lexlip", "vldeformer", "design", "objectives", "training photos", "layers"]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table that `lexlip table NAME` prints."""

    name: str
    title: str  # what it shows
    measure: Literal["models", "systems", "stages", "evaluations"] = "stages"  # the module that measures rows
    columns: tuple[Column, ...]  # after those that say what a row is
    labels: tuple[Column, ...] = LABELS  # those
    paper: str | None = None  # where the figures to compare with are: table and paper
    published: str | None = None  # in a sentence, figures that the authors give with their code or elsewhere
    quoted: tuple[Quoted, ...] = ()  # lines of the paper's own table, shown under one's own
    figures: Mapping[tuple[str, str], Mapping[str, float | None]] = field(default_factory=dict)
    """The paper's own figures by (model, documents), shown in columns beside one's own."""
    figure_headings: Mapping[str, str] = field(default_factory=dict)  # of these columns, by key in `figures`
    to_dict: Callable[[Row], dict[str, Any]] = Row.to_dict  # a row for `--json`
    ablations: Ablations | None = None  # what is varied, as `lexlip.bench.tables.models.methods_of` finds it
    several: Literal["collections", "languages"] | None = None
    """Rows are measured on several sources: one line for each, or a column for each language."""
    recall: bool = True  # is measured
    cutoffs: tuple[int, ...] = CUTOFFS  # at how many hits
    folds: tuple[int, ...] = ()  # parts into which photos are divided, one row each; empty: they never are
    response: bool = False  # the response to single queries is measured
    total: bool = False  # rows say how many queries there are in a pool of so many photos
    pairs: bool = False  # the cross-encoder alone has a row
    reranks: Use = "may"  # whether there must be a reranker
    ks: tuple[int, ...] = (20,)  # candidates that are reranked, one row each, by default
    fusions: tuple[str, ...] = ("none",)  # see `lexlip.search.hybrid.fuse`; one row each, by default
    pool: Use = "never"  # whether there must be further photos to search among
    sizes: tuple[int, ...] = ()  # photos in the index while response is measured, by default; empty: all
    plot: bool = False  # the response can be drawn
    queries_only: bool = False  # the pool is the photos that are queries, so that all pairs can be scored

    def shown(self, rows: list[Row]) -> list[Column]:
        """Return the columns that the table shows of these rows."""
        published = [self._published(key, heading) for key, heading in self.figure_headings.items()]
        return [column for column in (*self.labels, *self.columns, *published) if column.shown(rows)]

    def _published(self, key: str, heading: str) -> Column:
        """Return a column of the paper's own figures."""

        def cell(row: Row) -> str:
            number = self.figures.get(row.in_paper, {}).get(key)
            return UNKNOWN if number is None else figure(number)

        return Column(heading, cell)


@dataclass(frozen=True)
class Paper:
    """A paper with tables of stages."""

    name: str  # of its tables begins with it
    titles: str  # of its tables; "{}" is such as "Table 1"
    source: str

    def table(self, where: str, shows: str, also: str = "", **definition: Any) -> Table:
        """Return one of its tables; `also` says more about where the paper's figures are."""
        number = where.removeprefix("Table ").lower().replace(" ", "-")
        return Table(
            name=f"{self.name}-{number}",
            title=f"{self.titles.format(where)}: {shows}",
            paper=f"{where} ({self.source}){also}",
            **definition,
        )


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


def check_picture(file: str | Path) -> None:
    """Check that a picture can be drawn, before anything is measured.

    Raises:
        ConfigError: matplotlib does not know the file type, or the folder does not exist.
    """
    from matplotlib.figure import Figure

    known = Figure().canvas.get_supported_filetypes()
    if Path(file).suffix[1:].lower() not in known:
        raise ConfigError(f"cannot draw {file}: name it .{', .'.join(known)}")
    if not Path(file).absolute().parent.is_dir():
        raise ConfigError(f"cannot draw {file}: its folder does not exist")


def draw_response(rows: Sequence[Row], file: str | Path) -> None:
    """Draw the milliseconds of all queries, sorted, one line for each row that was timed.

    Raises:
        ConfigError: the file cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots()
    for row in rows:
        if row.response is None:
            continue
        total = sorted(1000 * row.response.seconds.sum(axis=1))
        shares = [100 * (rank + 1) / len(total) for rank in range(len(total))]
        reranked = "" if row.reranker is None else f", {row.k} reranked by {row.reranker}"
        axes.plot(shares, total, label=f"{row.model} ({row.documents}){reranked}")
    axes.set_yscale("log")
    axes.set_xlabel("percent of queries that take no longer")
    axes.set_ylabel("milliseconds")
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(fontsize=8)
    try:
        figure.savefig(file, dpi=150)
    except OSError as error:
        raise ConfigError(f"cannot write the picture to {file}: {error}") from error
