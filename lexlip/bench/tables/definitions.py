"""All tables by name; each is defined in a file of its paper."""

from __future__ import annotations

from lexlip.bench.tables import of_lexlip, of_lightningdot, of_retrieve, of_stages, of_vldeformer
from lexlip.bench.tables.table import Table

PAPERS = (of_lexlip, of_stages, of_lightningdot, of_vldeformer, of_retrieve)

TABLES: dict[str, Table] = {table.name: table for paper in PAPERS for table in paper.TABLES}
