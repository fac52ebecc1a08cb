"""The papers' tables, for one's own models and photos. Each paper's are data in one of the `of_*` files."""

from __future__ import annotations

from lexlip.bench.tables import of_dual_encoders, of_lexlip
from lexlip.bench.tables.columns import MEAN, MINUTES, PHOTO_BYTES, RECALLS, seconds_column
from lexlip.bench.tables.table import Table

STAGES = Table(
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
    response=True,
)

TABLES = {table.name: table for table in (*of_lexlip.TABLES, STAGES, *of_dual_encoders.TABLES)}
"""All tables by name."""
