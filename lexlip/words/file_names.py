"""Names of files: such as every system can have, and dates in them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import PurePath

from lexlip.words.plain_text import composed, readable, whole

LONGEST_NAME = 200  # bytes, so that a number and a mark of what is not complete still fit

_SIGNS = r'[<>:"/\\|?*]'  # which some system keeps for itself
_DEVICE = r"(?i:con|prn|aux|nul|com\d|lpt\d)\s*(\.|$)"  # of Windows, whatever follows
_DATE = re.compile(  # years from 1970 on; it takes no letters, so that what is no date hides none behind it
    r"(?<![0-9])(?=(19[7-9][0-9]|20[0-9]{2})([-_.]?)([0-9]{2})\2([0-9]{2})"  # 20190704, 2019-07-04
    r"(?:(?: at |[-_. T]?)([0-9]{2}|[0-9](?=[.:]))[-_.:]?([0-9]{2})[-_.:]?([0-9]{2})(?:[0-9]{3})?"
    r"(?:\s?([AP])M)?)?(?![0-9]))"  # 153012, 15.30.12, 153012123, "at 3.30.12 PM"
)
_OF_UTC = "PXL_"  # how the names of a Pixel's photos begin


def file_name(path: str) -> str:
    """Return the name of a file, given its path, as every system can have it.

    What is not to be seen, and signs such as ":", are replaced; a very long name is cut.
    """
    name = re.sub(_SIGNS, "_", readable(whole(PurePath(path).name))).rstrip(". ") or "photo"
    stem, ending = _parts(f"_{name}" if re.match(_DEVICE, name) else name)
    return stem.encode()[: LONGEST_NAME - len(ending.encode())].decode(errors="ignore") + ending


def date_in(path: str) -> str | None:
    """Return the date in the name of a file, as phones and programs write it, as ISO 8601, to the second.

    So IMG_20190704_153012.jpg has 2019-07-04T15:30:12, and IMG-20190704-WA0003.jpg the beginning of that day.
    The year is one from 1970 to the next one; a time that cannot be is left out. A name has the time where
    its photo was taken, as the camera's clock has it; but PXL_… that of UTC, and becomes that of this
    computer's clock: nothing says where it was.
    """
    name = path.rfind("/") + 1
    for found in _DATE.finditer(path, name):
        year, _, month, day, *time, half = found.groups()
        try:
            on = date(int(year), int(month), int(day))
        except ValueError:
            continue
        if on.year > date.today().year + 1:
            continue
        hour, minute, second = (int(part or 0) for part in time)
        if half:
            hour = hour % 12 + 12 * (half == "P")
        is_time = hour < 24 and minute < 60 and second < 60
        if not (time[0] and is_time):
            return f"{on}T00:00:00"
        at = datetime(on.year, on.month, on.day, hour, minute, second)
        if path.startswith(_OF_UTC, name):
            at = at.replace(tzinfo=UTC).astimezone().replace(tzinfo=None)
        return at.isoformat()
    return None


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
