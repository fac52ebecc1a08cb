"""The time of single calls: warm-up, clock and percentiles."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Query = TypeVar("Query")
Seconds = NDArray[np.float64]

WARM_UP = 10.0  # seconds of searching that are not counted: Java compiles, and words are unpacked


def time_queries(
    answer: Callable[[Query], Sequence[float]], queries: Sequence[Query], warm_up: float | None = None
) -> Seconds:
    """Answer all queries one at a time, after some that are not counted.

    Args:
        answer: answers a query, and returns the seconds of each of its m stages.
        queries: n queries.
        warm_up: seconds of answering before; None: WARM_UP.

    Returns:
        Seconds, float64 [n, m].
    """
    until = time.perf_counter() + (WARM_UP if warm_up is None else warm_up)
    for query in cycle(queries):
        answer(query)
        if time.perf_counter() >= until:
            break
    return np.array([answer(query) for query in queries], np.float64)


def percentiles(seconds: Seconds, percents: Sequence[float], unit: float = 1.0) -> dict[str, float]:
    """Return percentiles of seconds [n] by name, {"p50": ...}; `unit` is 1000 for milliseconds."""
    return {f"p{percent:g}": float(np.percentile(seconds, percent) * unit) for percent in percents}
