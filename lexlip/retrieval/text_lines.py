"""Lines of text that stand in a photo, as they were read, and as the table of photos stores them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from anserini_bridge.given_files import parse_json

WHOLE = 1000  # of a photo's width, and of its height

NOWHERE = (0,) * 8
"""The corners of a line on a page that nobody is shown."""


class TextLine(NamedTuple):
    """A line of text.

    Attributes:
        text: what was read.
        corners: of the line, from its beginning above around it: x and y four times, in thousandths of the
            photo's width and height.
    """

    text: str
    corners: tuple[int, ...]


def plain_lines(lines: Iterable[TextLine]) -> list[list[Any]]:
    """Return lines as plain values: of each its text, and its eight numbers."""
    return [[line.text, *line.corners] for line in lines]


def store_lines(lines: Iterable[TextLine]) -> str:
    """Return lines as the table of photos stores them."""
    return json.dumps(plain_lines(lines), ensure_ascii=False)


def lines_of(plain: Any) -> tuple[TextLine, ...]:
    """Return what `plain_lines` was given; ValueError: it is something else."""
    if not isinstance(plain, list) or not all(map(_is_line, plain)):
        raise ValueError(f"{plain!r:.60} is no list of lines")
    return tuple(TextLine(text, tuple(corners)) for text, *corners in plain)


def stored_lines(stored: str) -> tuple[TextLine, ...]:
    """Return what `store_lines` was given; ValueError: it is something else."""
    return lines_of(parse_json(stored))


def _is_line(line: object) -> bool:
    if not (isinstance(line, list) and len(line) == 9 and isinstance(line[0], str)):
        return False
    return all(isinstance(one, int) and 0 <= one <= WHOLE for one in line[1:])
