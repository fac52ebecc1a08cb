"""A system of LexLIP's Table 2, whatever searches: its row, what is timed for it, and how it is measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from lexlip.bench.clocks import Timed
from lexlip.bench.tables.first_stages import TableSettings
from lexlip.bench.tables.row import Row
from lexlip.measure.evaluate import search_all
from lexlip.measure.recalls import recall_at_k

K = 10  # hits of a query


class System(NamedTuple):
    """A row without its speed, and what to time for it; None if the system could not be measured."""

    row: Row
    timed: Timed | None


def recall_of(
    search: Callable[[Any, int], tuple[list[list[str]], Any]],
    queries: Any,
    relevant: Sequence[Collection[str]],
    what: str,
    settings: TableSettings,
) -> dict[str, float]:
    """Return the recalls of an engine's `search`; `what` is what the progress bar says."""
    found, _ = search_all(search, queries, K, what if settings.progress else None)
    return recall_at_k(found, relevant)


def seconds_of(search: Callable[[Any, int], object], queries: Any, number: int) -> float:
    """Return how long an engine takes for the first so many queries."""
    first = queries[:number]
    started = time.perf_counter()
    search(first, K)
    return time.perf_counter() - started
