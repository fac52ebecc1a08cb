"""Where disks are mounted among the photos of a source."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

_ESCAPED = re.compile(rb"\\([0-7]{3})")


def mount_points(files: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the folders at which other file systems begin, by what the ids of photos there begin with.

    Args:
        files: pairs of a photo's id, or of the part of it that is a tar, and the path of that file.
    """
    begins = cache(_begins_of(_mounted()))
    found: dict[str, str] = {}
    seen = set()
    for id, file in files:
        place, folder = _above(id), _above(file)
        while place and (place, folder) not in seen:
            seen.add((place, folder))
            if begins(folder):
                found[place] = folder
            place, folder = _above(place), _above(folder)
    return found


def is_mounted(folder: str) -> bool:
    """Return whether a disk is mounted at a folder, with something on it."""
    try:
        return _begins_of(_mounted())(folder) and bool(os.listdir(folder))  # noqa: PTH208
    except OSError:
        return False


def _above(path: str) -> str:
    return path.rpartition("/")[0]


def _begins_of(mounted: set[str]) -> Callable[[str], bool]:
    def begins(folder: str) -> bool:
        try:
            other_device = os.stat(folder).st_dev != os.stat(_above(folder) or "/").st_dev  # noqa: PTH116
            return other_device or os.path.realpath(folder) in mounted
        except (OSError, ValueError):  # a ValueError: no path can hold what an index says
            return False

    return begins


def _mounted() -> set[str]:
    """Return where something is mounted, as Linux tells: a folder may be bound to another one of its disk."""
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return set()
    paths = (_ESCAPED.sub(lambda octal: bytes([int(octal[1], 8)]), line.split(b" ")[4]) for line in lines)
    return {os.fsdecode(path) for path in paths}
