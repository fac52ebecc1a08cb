"""A picture of the response of stages, as Figure 5 of the VLDeformer paper has it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lexlip.errors import ConfigError
from lexlip.evaluation.stages.rows import Row


def draw_response(rows: Sequence[Row], file: str | Path) -> None:
    """Milliseconds of each query, sorted, a line for each row that was timed.

    Raises:
        ConfigError: matplotlib is not installed, or the file cannot be written or is of an unknown type.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("pictures need matplotlib: pip install matplotlib") from None
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
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot write the picture to {file}: {error}") from error
