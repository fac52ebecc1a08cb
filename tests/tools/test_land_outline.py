"""The land that the page's map shows."""

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest

from lexlip.server.application import PAGE
from tools.land_outline import Outlines


def lines(path: str) -> Iterator[list[tuple[int, int]]]:
    """The lines of an SVG's path of "M" and "l"."""
    for part in filter(None, path.replace("z", "").split("M")):
        start, _, steps = part.partition("l")
        (x, y), numbers = map(int, start.split()), [int(one) for one in re.findall(r"-?\d+", steps)]
        line = [(x, y)]
        for dx, dy in zip(numbers[::2], numbers[1::2], strict=True):
            x, y = x + dx, y + dy
            line.append((x, y))
        yield line


def paths() -> list[str]:
    return re.findall(r' d="([^"]+)"', (PAGE / "vendor" / "land.svg").read_text())


def is_land(latitude: float, longitude: float) -> bool:
    """By counting sides to the east, as the rule "evenodd" says."""
    x, y, odd = 10 * longitude, -10 * latitude, False
    for ring in lines(paths()[0]):
        for (a, b), (c, d) in pairwise([*ring, ring[0]]):
            if (b > y) != (d > y) and x < a + (y - b) / (d - b) * (c - a):
                odd = not odd
    return odd


@pytest.mark.parametrize(
    ("latitude", "longitude", "land"),
    [
        *((48.1, 11.6, True), (45.8, 4.8, True), (-25, 135, True), (40, -100, True), (67, 179, True)),
        *((68, -179, True), (-85, 20, True), (-85, -170, True), (35, -40, False), (0, 179, False)),
        *((42, 51, False), (-62, -100, False), (75, 170, False), (64.8, -18.5, True), (-19, 46.5, True)),
    ],
)
def test_land_and_sea(latitude: float, longitude: float, land: bool) -> None:
    assert is_land(latitude, longitude) == land


def test_it_is_small_and_on_the_map() -> None:
    assert (PAGE / "vendor" / "land.svg").stat().st_size < 40_000
    points = [point for path in paths() for line in lines(path) for point in line]
    assert min(x for x, _ in points) < -1800 < -1700 < 1700 < max(x for x, _ in points)
    assert {y for _, y in points} <= set(range(-900, 901))


def test_borders_are_what_two_countries_have() -> None:
    """Two squares side by side: the side between them."""
    topology = {
        "transform": {"scale": [1, 1], "translate": [0, 0]},
        "arcs": [[[1, 0], [0, 1]], [[1, 1], [-1, 0], [0, -1], [1, 0]], [[1, 0], [1, 0], [0, 1], [-1, 0]]],
        "objects": {
            "land": {"geometries": [{"arcs": [[[2, 1]]]}]},
            "countries": {"geometries": [{"arcs": [[0, 1]]}, {"arcs": [[[~0, 2]]]}]},
        },
    }
    outlines = Outlines(topology)
    assert list(lines(outlines.borders())) == [[(10, 0), (10, -10)]]
    (land,) = lines(outlines.land())
    assert {(0, 0), (20, 0), (20, -10), (0, -10)} <= set(land)
