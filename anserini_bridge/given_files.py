"""Reads files that somebody may have handed over: nothing in them can crash or block this process."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from itertools import accumulate
from pathlib import Path
from typing import Any

LARGEST = 2**30
"""Bytes of a file that is read whole: a list of some million photos."""

DEEPEST = 200
"""How deep JSON may be nested. Parsers recurse, and Java leaves the main thread only 1 MB of its stack."""

_KINDS = {
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
    stat.S_IFDIR: "folder",
}
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NO_BRACKET = re.compile(r"[^][{}]++")
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}


def check_file(path: str | Path, largest: int | None = None) -> None:
    """Check that there is a regular file, or a link to one, before it is opened: a pipe would block.

    Args:
        path: of the file.
        largest: its bytes at most; None is any number.

    Raises:
        OSError: there is none, it is something else, or it is larger.
    """
    status = os.stat(path)  # noqa: PTH116
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "special file")
        raise OSError(errno.EINVAL, f"it is a {kind}, not a file", str(path))
    if largest is not None and status.st_size > largest:
        raise OSError(errno.EFBIG, f"it has {status.st_size:,} bytes, and {largest:,} are read", str(path))


def check_files(folder: str | Path) -> None:
    """Check that everything in a folder is a regular file, or a folder.

    Raises:
        OSError: the folder cannot be read, or something in it is another thing, or leads nowhere.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_dir():
                check_file(entry.path)


def read_file(path: str | Path, largest: int = LARGEST) -> bytes:
    """Return the bytes of a regular file.

    Raises:
        OSError: see `check_file`, or it cannot be read.
    """
    check_file(path, largest)
    return Path(path).read_bytes()


def read_json(path: str | Path, largest: int = LARGEST) -> Any:
    """Return what a JSON file holds.

    Raises:
        OSError: see `read_file`.
        ValueError: see `parse_json`.
    """
    return parse_json(read_file(path, largest))


def parse_json(data: str | bytes) -> Any:
    """Return what JSON holds, in any thread, whatever the JSON is.

    Args:
        data: a text, or its bytes in UTF-8.

    Raises:
        ValueError: it is not UTF-8, not JSON, or nested more than `DEEPEST` deep.
    """
    text = data if isinstance(data, str) else data.decode("utf-8-sig")
    if text.count("[") + text.count("{") > DEEPEST and _depth(text) > DEEPEST:
        raise ValueError(f"nested more than {DEEPEST} deep")
    return json.loads(text)


def _depth(text: str) -> int:
    """Return how many brackets are open at most, without those in strings."""
    brackets = _NO_BRACKET.sub("", _STRING.sub("", text))
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0)
