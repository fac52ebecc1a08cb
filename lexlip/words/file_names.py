"""Names of files that every system can have."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import PurePath

from lexlip.words.plain_text import composed, readable, whole

LONGEST_NAME = 200  # bytes, so that a number and a mark of what is not complete still fit

_SIGNS = re.compile(r'[<>:"/\\|?*]')  # which some system keeps for itself
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)\s*(\.|$)", re.IGNORECASE)  # of Windows, whatever follows


def file_name(path: str) -> str:
    """Return the name of a file, given its path, as every system can have it.

    What is not to be seen, and signs such as ":", are replaced; a very long name is cut.
    """
    name = _SIGNS.sub("_", readable(whole(PurePath(path).name))).rstrip(". ") or "photo"
    stem, ending = _parts(f"_{name}" if _DEVICE.match(name) else name)
    return stem.encode()[: LONGEST_NAME - len(ending.encode())].decode(errors="ignore") + ending


def same_name(name: str) -> str:
    """Return what is equal for names that some system takes for one."""
    return composed(name).casefold()


def numbered(name: str) -> Iterator[str]:
    """Yield a name, and then others for further files of this name: dog.jpg, dog (2).jpg, and so on."""
    yield name
    stem, ending = _parts(name)
    number = 2
    while True:
        yield f"{stem} ({number}){ending}"
        number += 1


def _parts(name: str) -> tuple[str, str]:
    """Return a name without its ending, and the ending."""
    stem, ending = os.path.splitext(name)  # noqa: PTH122
    return (stem, ending) if len(ending.encode()) <= 20 else (name, "")


class Names:
    """Gives each of several files a name that no other of them has on any system; some are taken before."""

    def __init__(self, *taken: str) -> None:
        self._taken = set(map(same_name, taken))
        self._free: dict[str, Iterator[str]] = {}  # by the name of a file those that may be free

    def take(self, path: str) -> str:
        """Return the name of a file, given its path."""
        name = file_name(path)
        free = self._free.setdefault(name, numbered(name))
        found = next(one for one in free if same_name(one) not in self._taken)
        self._taken.add(same_name(found))
        return found
