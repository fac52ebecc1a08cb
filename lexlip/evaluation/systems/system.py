"""What all systems have: settings, a size, recalls, something to time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from lexlip.evaluation.recall import recall_at_k
from lexlip.evaluation.speed import Timed
from lexlip.sparse.quantize import Scheme

K = 10  # hits of a query
QUERIES = 256  # searched between two moves of the progress bar


@dataclass(frozen=True)
class Settings:
    """How systems are measured.

    Attributes:
        synthetic: vectors added to the photos, and as many to the captions.
        threads: of the processor, while speed is measured; recall takes all there are.
        scheme: see `lexlip.sparse.quantize`.
        seed: of what is drawn.
        progress: show progress bars.
    """

    synthetic: int = 0
    threads: int = 1
    scheme: Scheme = "unit"
    seed: int = 0
    progress: bool = False

    def bar(self, what: str, total: int, unit: str) -> tqdm:
        """A progress bar on stderr, if that is a terminal and the work takes more than two seconds."""
        return tqdm(total=total, unit=unit, desc=what, disable=not self.progress or None, delay=2)


@dataclass(frozen=True)
class System:
    """An index of photos, and what it finds.

    Attributes:
        name: of the system.
        documents: what it keeps of a photo.
        items: photos in the index.
        megabytes: of the index on disk, with ids.
        megabytes_without_ids: less those of an index of the same ids alone.
        item_bytes: of a photo by the paper's accounting.
        timed: text-to-image search, for `lexlip.evaluation.speed`.
        t2i: recalls in percent; None where they say nothing.
        i2t: likewise.
    """

    name: str
    documents: str
    items: int
    megabytes: float
    megabytes_without_ids: float
    item_bytes: float
    timed: Timed
    t2i: dict[str, float] | None = None
    i2t: dict[str, float] | None = None


def recall(
    search: Callable[[Any, int], tuple[list[list[str]], Any]],
    queries: Any,
    relevant: Sequence[Collection[str]],
    what: str,
    settings: Settings,
) -> dict[str, float]:
    """`recall_at_k` of n queries.

    Args:
        search: an engine's.
        queries: n of what it takes, rows of a matrix or texts.
        relevant: for each query the ids that are right.
        what: the progress bar says.
        settings: see `Settings`.
    """
    found: list[list[str]] = []
    with settings.bar(what, len(relevant), "query") as bar:
        for start in range(0, len(relevant), QUERIES):
            found += search(queries[start : start + QUERIES], K)[0]
            bar.update(len(found) - bar.n)
    return recall_at_k(found, relevant)


def seconds(search: Callable[[Any, int], object], queries: Any, number: int) -> float:
    """How long an engine takes for the first so many queries."""
    asked = queries[:number]
    started = time.perf_counter()
    search(asked, K)
    return time.perf_counter() - started
