"""`lexlip table stages`: all measurements of first stages, alone and reranked."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lexlip.bench.tables.columns import MEAN, MINUTES, PHOTO_BYTES, RECALLS, seconds_column
from lexlip.bench.tables.row import Row
from lexlip.bench.tables.table import Table

if TYPE_CHECKING:
    from lexlip.measure.evaluate import Report


def stage_row(row: Row) -> dict[str, Any]:
    """Return a row of a table of stages as `--json` prints it."""
    return {
        "model": row.model,
        "method": row.method,
        "rerank": row.reranker,
        "k": row.k,
        "fusion": row.fusion,
        "documents": row.documents,
        "photos": row.photos,
        "t2i": row.t2i,
        "i2t": row.i2t,
        "mean_recall": row.report and row.report.mean_recall,
        "seconds": row.response and row.response.to_dict(),
        "speed_up": row.speed_up,
        "photo_bytes": row.photo_bytes,
        "training_minutes": row.training and row.training.minutes,
        "training_steps": row.training and row.training.steps,
        "average_recall": row.average_recall,
        "folds": row.folds,
        "collection": row.collection,
        "trained_on": row.trained_on,
        "languages": row.languages and {name: _recalls(report) for name, report in row.languages.items()},
        "queries": row.queries,
        "total_seconds": row.total_seconds,
        "evaluation": row.evaluation and {"total": row.evaluation.total, **asdict(row.evaluation)},
    }


def _recalls(report: Report) -> dict[str, Any]:
    return {"t2i": report.t2i, "i2t": report.i2t, "mean_recall": report.mean_recall}


TABLES = (
    Table(
        name="stages",
        title="Compare stages: recall, response, index and training, alone and reranked.",
        columns=(
            *RECALLS,
            MEAN,
            seconds_column("P50 ms", "p50", 1000),
            seconds_column("P99 ms", "p99", 1000),
            PHOTO_BYTES,
            MINUTES,
        ),
        to_dict=stage_row,
        response=True,
    ),
)
