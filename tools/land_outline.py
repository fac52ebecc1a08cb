"""Make the land and the borders that the page's map shows, of the npm package world-atlas 2.0.2.

::

    npm pack world-atlas@2.0.2 && tar xzf world-atlas-2.0.2.tgz
    python tools/land_outline.py package/countries-110m.json lexlip/server/page/vendor/land.svg

The file has two paths, in tenths of a degree east and south.
"""

import json
import math
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

HALF = 1800  # tenths of a degree half around the Earth
BESIDE = 1  # tenths of a degree by which a point may be left out
Point = tuple[int, int]


class Outlines:
    """The land and the borders of a TopoJSON file, as paths of an SVG."""

    def __init__(self, topology: dict[str, Any]) -> None:
        self._scale, self._translate = topology["transform"]["scale"], topology["transform"]["translate"]
        self._arcs = [self._points(arc) for arc in topology["arcs"]]
        self._objects = {name: one["geometries"] for name, one in topology["objects"].items()}

    def land(self) -> str:
        """Return the land, to be filled."""
        (land,) = self._objects["land"]
        rings = [self._ring(numbers) for polygon in land["arcs"] for numbers in polygon]
        return "".join(_drawn(part) + "z" for ring in rings for part in _on_map(ring))

    def borders(self) -> str:
        """Return the lines between countries: arcs that two of them have."""
        numbers = Counter(one if one >= 0 else ~one for one in _numbers(self._objects["countries"]))
        return "".join(_drawn(_without_steps(self._arcs[one])) for one in numbers if numbers[one] > 1)

    def _points(self, arc: list[list[int]]) -> list[Point]:
        found, x, y = [], 0, 0
        for dx, dy in arc:
            x, y = x + dx, y + dy
            east, north = (
                value * scale + start
                for value, scale, start in zip((x, y), self._scale, self._translate, strict=True)
            )
            found.append((round(10 * east), -round(10 * north)))
        return _plain(found)

    def _ring(self, numbers: list[int]) -> list[Point]:
        arcs = (self._arcs[one] if one >= 0 else self._arcs[~one][::-1] for one in numbers)
        return _without_steps([point for arc in arcs for point in arc])


def _plain(line: list[Point]) -> list[Point]:
    """Return a line without points that lie beside it (Douglas and Peucker's algorithm)."""
    (a, b), (x, y) = line[0], line[-1]
    length = math.hypot(x - a, y - b)

    def beside(point: Point) -> float:
        if not length:
            return math.hypot(point[0] - a, point[1] - b)
        return abs((x - a) * (b - point[1]) - (a - point[0]) * (y - b)) / length

    middle = max(range(1, len(line) - 1), key=lambda place: beside(line[place]), default=0)
    if not middle or beside(line[middle]) < BESIDE:
        return [line[0], line[-1]]
    return _plain(line[: middle + 1]) + _plain(line[middle:])[1:]


def _numbers(geometries: Any) -> Iterator[int]:
    """Yield the numbers of arcs in nested lists of them."""
    for one in geometries:
        if isinstance(one, int):
            yield one
        else:
            yield from _numbers(one["arcs"] if isinstance(one, dict) else one)


def _without_steps(points: list[Point]) -> list[Point]:
    """Return points without those that are where the one before is."""
    return [points[0], *(after for before, after in pairwise(points) if after != before)]


def _on_map(ring: list[Point]) -> list[list[Point]]:
    """Return what of a ring is drawn; one that goes on beyond the date line, at either end of the map."""
    (x, y), around = ring[0], [ring[0]]
    for (before, _), (after, y) in pairwise(ring):
        x += (after - before + HALF) % (2 * HALF) - HALF
        around.append((x, y))
    if x != ring[0][0]:  # around the South Pole
        around += [(x, 900), (ring[0][0], 900)]
    easts = [x for x, _ in around]
    shifts = [shift for shift in (-2 * HALF, 0, 2 * HALF) if min(easts) + shift < HALF > -max(easts) - shift]
    return [[(x + shift, y) for x, y in around] for shift in shifts]


def _drawn(line: list[Point]) -> str:
    steps = [(x - a, y - b) for (a, b), (x, y) in pairwise(line)]
    numbers = "".join(f"{number:+d}" for step in steps for number in step).replace("+", " ")
    return f"M{line[0][0]} {line[0][1]}l{numbers.strip()}"


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    outlines = Outlines(json.loads(source.read_text()))
    same = 'vector-effect="non-scaling-stroke"'
    target.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg"><g id="land">'
        f'<path {same} fill-rule="evenodd" d="{outlines.land()}"/>'
        f'<path {same} fill="none" d="{outlines.borders()}"/></g></svg>\n'
    )
