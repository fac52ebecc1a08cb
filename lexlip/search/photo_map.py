"""Where photos were taken, gathered for a part of a map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Box(NamedTuple):
    """A part of a map, in degrees east and north."""

    west: float
    south: float
    east: float
    north: float


class Spot(NamedTuple):
    """Photos that were taken beside one another: how many, their mean place, and the box around them."""

    photos: int
    latitude: float
    longitude: float
    box: Box

    def to_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "box": list(self.box)}


def gather(places: NDArray[np.float64], box: Box, columns: int, rows: int) -> list[Spot]:
    """Return the spots in a part of a map, most photos first.

    Args:
        places: degrees north and east [n, 2].
        box: the part of the map.
        columns, rows: cells of the grid in the box, each of which is a spot if it has photos. The grid hangs
            on the middle of the map, so a spot stays together when the box moves: then cells lie half inside.
    """
    north, east = places.T
    inside = (box.west <= east) & (east <= box.east) & (box.south <= north) & (north <= box.north)
    north, east = north[inside], east[inside]
    if not len(north):
        return []
    steps = (box.east - box.west) / columns, (box.north - box.south) / rows
    cells = np.stack([np.floor(east / steps[0]), np.floor(north / steps[1])], axis=1)
    _, cell = np.unique(cells, axis=0, return_inverse=True)
    cell = cell.ravel()  # NumPy 2.0.0 has a column
    order = np.argsort(cell, kind="stable")
    starts = np.flatnonzero(np.diff(cell[order], prepend=-1))
    north, east = north[order], east[order]
    counts = np.diff([*starts, len(order)])
    means = (np.add.reduceat(values, starts) / counts for values in (north, east))
    sides = (
        np.minimum.reduceat(east, starts),
        np.minimum.reduceat(north, starts),
        np.maximum.reduceat(east, starts),
        np.maximum.reduceat(north, starts),
    )
    boxes = (Box(*row) for row in np.stack(sides, axis=1).tolist())
    rows_of = zip(counts.tolist(), *(mean.tolist() for mean in means), boxes, strict=True)
    return sorted(map(Spot._make, rows_of), key=lambda spot: -spot.photos)
