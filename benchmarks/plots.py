"""Draws engine reports: queries per second against recall, and cost against the size of a corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anserini_bridge.given_files import read_json
from benchmarks.benchmark import NEAR
from benchmarks.peers import ENGINES
from lexlip.errors import ConfigError, DataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    "lexlip": "#c1121f",
    "pyserini": "#1d3557",
    "anserini": "#457b9d",
    "faiss-flat": "#6c757d",
    "faiss-hnsw": "#2a9d8f",
    "faiss-ivf-sq8": "#8ab17d",
    "faiss-ivf-pq": "#52796f",
    "seismic": "#e9a23b",
    "seismic-knn": "#bc6c25",
    "bmp": "#7b2cbf",
    "kannolo": "#3a86ff",
    "sindi": "#ff7f51",
    "qdrant": "#d6336c",
    "scipy": "#b08968",
}
COSTS = {
    "ms a query": lambda row: 1000 / row["qps"],
    "build, s": lambda row: row["build_s"],
    "index, MB": lambda row: row["index_mb"],
}


def read_results(paths: Sequence[str | Path]) -> list[dict[str, Any]]:
    """Return reports that `lexlip bench engine --json` printed, smallest corpus first.

    Raises:
        DataError: a file cannot be read, or is not such a report.
    """
    results = []
    for path in paths:
        try:
            result = read_json(path)
            _setting(result), result["conditions"]["documents"], result["engines"]
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror}") from error
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(f"{path} is not a report of lexlip bench engine --json") from error
        results.append(result)
    return sorted(results, key=lambda result: result["conditions"]["documents"])


def draw(results: Sequence[Mapping[str, Any]], out: str | Path) -> list[Path]:
    """Draw the pictures as SVG and PNG; return their paths.

    There is a picture of speed against recall for each report, and one of costs for reports that differ only
    in size.

    Raises:
        ConfigError: the folder cannot be written.
    """
    from matplotlib.figure import Figure

    figures = {}
    series: dict[str, list[Mapping[str, Any]]] = {}
    for result in results:
        figure = Figure(figsize=(9, 5), layout="constrained")
        draw_recall(figure.subplots(), result)
        figures[f"recall-{result['conditions']['documents']}-{_setting(result)}"] = figure
        series.setdefault(_setting(result), []).append(result)
    for setting, of_setting in series.items():
        if len({result["conditions"]["documents"] for result in of_setting}) > 1:
            figure = Figure(figsize=(14, 4.5), layout="constrained")
            draw_costs(figure, of_setting)
            figures[f"size-{setting}"] = figure
    return _save(figures, Path(out))


def draw_recall(axes: Axes, result: Mapping[str, Any]) -> None:
    """Draw queries per second against recall: a line for each library's settings, a mark for each engine."""
    conditions = result["conditions"]
    recall = f"recall@{conditions['k']}"
    for library, colour in COLOURS.items():
        marks = iter("Do")
        for calls in ("batch", "one by one"):
            rows = {
                name: row
                for name, row in result["engines"].items()
                if _is_setting(name, library) and ENGINES[name].calls == calls
            }
            if len(rows) > 2:
                points = sorted((row[recall], row["qps"]) for row in rows.values())
                label = f"{library}, approximate" if library in rows else library
                axes.plot(*zip(*points, strict=True), "o-", color=colour, ms=4, label=label)
                rows = {name: row for name, row in rows.items() if name == library}
            for name, row in rows.items():
                mark, size = ("*", 15) if name == "lexlip" else (next(marks), 7)
                axes.plot(row[recall], row["qps"], mark, color=colour, ms=size, label=name, clip_on=False)
    axes.set_yscale("log")
    axes.set_xlabel(recall)
    axes.set_ylabel(f"queries per second, {conditions['threads']} thread(s)")
    axes.set_title("{documents:,} documents, top-{topk}, {query_terms} query terms".format(**conditions))
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.02, 1))


def draw_costs(figure: Figure, results: Sequence[Mapping[str, Any]]) -> None:
    """Draw a panel for each cost against the number of documents; each library is at most one line."""
    panels = figure.subplots(1, len(COSTS))
    for axes, (title, cost) in zip(panels, COSTS.items(), strict=True):
        lines: dict[str, list[tuple[int, float]]] = {}
        for result in results:
            for name, row in _one_of_each(result).items():
                lines.setdefault(name, []).append((result["conditions"]["documents"], cost(row)))
        for name, points in lines.items():
            colour = COLOURS.get(name) or COLOURS[ENGINES[name].library]
            style = "o-" if name in COLOURS else "o--"
            axes.plot(*zip(*points, strict=True), style, color=colour, ms=4, label=name)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("documents")
        axes.set_title(title)
        axes.grid(True, which="major", alpha=0.3)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", fontsize=8)


def _setting(result: Mapping[str, Any]) -> str:
    """Return what reports must have in common to be compared by size."""
    c = result["conditions"]
    return (
        f"{c['vocabulary']}-words-top-{c['topk']}-query-{c['query_terms']}-k-{c['k']}-threads-{c['threads']}"
    )


def _is_setting(name: str, library: str) -> bool:
    """Return whether a row is of an engine of this library, and not the copy that represents it."""
    return name in ENGINES and ENGINES[name].library == library


def _one_of_each(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return engines by name, one for each library with many settings.

    That is the one with the library's own name, which is exact, or the one whose recall is nearest to 0.99.
    """
    recall = f"recall@{result['conditions']['k']}"
    chosen = {}
    for library in COLOURS:
        rows = {name: row for name, row in result["engines"].items() if _is_setting(name, library)}
        if len(rows) > 2:
            near = min(rows.values(), key=lambda row: abs(row[recall] - NEAR))
            rows = {library: rows.get(library, near)}
        chosen.update(rows)
    return chosen


def _save(figures: Mapping[str, Figure], folder: Path) -> list[Path]:
    paths = [folder / f"{name}.{kind}" for name in figures for kind in ("svg", "png")]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in paths:
            figures[path.stem].savefig(path, dpi=150)
    except OSError as error:
        raise ConfigError(f"cannot write the pictures to {folder}: {error.strerror}") from error
    return paths
