"""All tables by name; each is defined in a file of its paper."""

from __future__ import annotations

from lexlip.bench.tables import of_lexlip, of_stages
from lexlip.bench.tables.table import Table

TABLES: dict[str, Table] = {table.name: table for table in (*of_lexlip.TABLES, *of_stages.TABLES)}
