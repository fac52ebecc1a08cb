import itertools

import numpy as np
import pytest

from lexlip.search.photo_map import Box, gather

WORLD = Box(-180, -90, 180, 90)


def places(number: int) -> np.ndarray:
    """Around some towns, degrees north and east."""
    generator = np.random.default_rng(number)
    towns = np.array([[48.1, 11.6], [-33.9, 151.2], [64.1, -21.9], [0, 0]])
    return towns[generator.integers(4, size=number)] + generator.normal(0, 2, (number, 2))


@pytest.mark.parametrize("box", [WORLD, Box(8, 44, 14, 50), Box(-25, -40, 160, 70), Box(30, 10, 31, 11)])
@pytest.mark.parametrize(("columns", "rows"), [(1, 1), (12, 6), (40, 40)])
def test_each_cell_that_has_photos_is_a_spot(box: Box, columns: int, rows: int) -> None:
    wide, high = (box.east - box.west) / columns, (box.north - box.south) / rows
    cells: dict[tuple[float, float], list[tuple[float, float]]] = {}
    for north, east in places(500).tolist():
        if box.west <= east <= box.east and box.south <= north <= box.north:
            cells.setdefault((east // wide, north // high), []).append((north, east))
    expected = []
    for inside in cells.values():
        norths, easts = zip(*inside, strict=True)
        middle = sum(norths) / len(inside), sum(easts) / len(inside)
        expected.append((len(inside), *middle, (min(easts), min(norths), max(easts), max(norths))))
    found = gather(places(500), box, columns, rows)
    assert len(found) <= (columns + 1) * (rows + 1)
    assert [spot.photos for spot in found] == sorted((one[0] for one in expected), reverse=True)
    for one, spot in zip(sorted(expected, key=str), sorted(map(tuple, found), key=str), strict=True):
        assert one[:3] == pytest.approx(spot[:3])
        assert one[3] == tuple(spot[3])


def test_a_spot_stays_together_when_the_map_is_moved() -> None:
    """But for cells at its edges."""
    inner = {
        spot
        for spot in gather(places(500), Box(4, 40, 20, 56), 8, 8)
        if spot.box.west > 8 and spot.box.east < 18
    }
    assert inner
    for east, north in itertools.product((0.3, 1.1), (0.7, 1.9)):
        moved = Box(4 + east, 40 + north, 20 + east, 56 + north)
        far = {spot for spot in inner if spot.box.south > 43 and spot.box.north < 55}
        assert far <= set(gather(places(500), moved, 8, 8))


def test_no_places_are_no_spots() -> None:
    assert gather(np.zeros((0, 2)), WORLD, 12, 6) == []
