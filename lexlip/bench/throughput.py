"""How many queries per second engines answer, measured in turns so that all see the same machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from lexlip.machine.progress import ProgressBar


class Timed(NamedTuple):
    """An engine to time.

    Attributes:
        seconds: answers the first n queries and returns the seconds that it took.
        queries: how many queries there are.
        least: the smallest n to measure with, if queries are answered together.
    """

    seconds: Callable[[int], float]
    queries: int
    least: int = 1


def queries_per_second(
    engines: Sequence[Timed], rounds: int = 5, duration: float = 1.0, progress: bool = False
) -> list[float]:
    """Return the rate of each engine: the median of so many rounds, in each of which all take a turn.

    The first queries decide how many queries an engine gets in a round. They, and a round that does not
    count, also warm it up.

    Args:
        engines: what to measure.
        rounds: that count.
        duration: seconds that an engine is busy in a round, if it has that many queries.
        progress: show a progress bar.
    """
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
