"""A picture of the response of stages: what share of the queries takes how long."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lexlip.bench.tables.row import Row
from lexlip.errors import ConfigError


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
