"""Clocks: the time of single calls, and how many queries engines answer in a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Query = TypeVar("Query")
Seconds = NDArray[np.float64]

WARM_UP = 10.0  # seconds of searching that are not counted: Java compiles, and words are unpacked


def time_queries(
    answer: Callable[[Query], Sequence[float]], queries: Sequence[Query], warm_up: float | None = None
) -> Seconds:
    """Answer all queries one at a time, after `warm_up` seconds (None: WARM_UP) that do not count.

    `answer` returns the seconds of each of its m stages.

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


class Timed(NamedTuple):
    """An engine to time."""

    seconds: Callable[[int], float]  # answers the first n queries and returns the seconds that it took
    queries: int  # how many there are
    least: int = 1  # the smallest n to measure with, if queries are answered together


def queries_per_second(
    engines: Sequence[Timed], rounds: int = 5, duration: float = 1.0, progress: bool = False
) -> list[float]:
    """Return the rate of each engine: the median of so many rounds, in each of which all take a turn.

    In a round an engine is busy for `duration` seconds, if it has that many queries. The first queries decide
    how many it gets. They, and a round that does not count, also warm it up.
    """
    from lexlip.machine.progress import ProgressBar  # not in the Python of another engine

    counts = [_count(engine, duration) for engine in engines]
    rates: list[list[float]] = [[] for _ in engines]
    turns = (rounds + 1) * len(engines)
    with ProgressBar(total=turns, unit="turn", desc="speed", disable=not progress, delay=2) as bar:
        for _ in range(rounds + 1):
            for engine, count, measured in zip(engines, counts, rates, strict=True):
                measured.append(count / engine.seconds(count))
                bar.update()
    return [float(np.median(measured[1:])) for measured in rates]


def _count(engine: Timed, duration: float) -> int:
    """Return how many queries take so many seconds, by trying ever more."""
    count = min(engine.least, engine.queries)
    while (seconds := engine.seconds(count)) < duration / 4 and count < engine.queries:
        count = min(4 * count, engine.queries)
    return int(np.clip(round(count * duration / seconds), min(engine.least, engine.queries), engine.queries))
