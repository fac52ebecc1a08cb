"""What tests ask of a system of LexLIP's Table 2."""

from lexlip.bench.clocks import Timed
from lexlip.bench.tables.row import IndexSize, Row
from lexlip.bench.tables.systems import System


def size_of(system: System) -> IndexSize:
    assert system.row.index is not None
    return system.row.index


def timed(system: System) -> Timed:
    assert system.timed is not None
    return system.timed


def recall(row: Row, way: str, k: str = "R@10") -> float:
    """A recall in percent, by "t2i" or "i2t"."""
    recalls: dict[str, float] = getattr(row, way)
    return recalls[k]
