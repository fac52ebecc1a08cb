"""Reads files that somebody may have handed over: nothing in them can crash or block this process."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import textwrap
from itertools import accumulate
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

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
_STRING = r'(?s)"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
_NO_BRACKET = r"[^][{}]++"
_SURROGATE = "[\ud800-\udfff]"
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}


def check_file(path: str | Path, largest: int | None = None) -> None:
    """Check that there is a regular file, or a link to one, before it is opened: a pipe would block.

    Raises:
        OSError: there is none, it is something else, or it has more than `largest` bytes.
    """
    if "\0" in str(path):  # which `os.stat` calls a wrong value
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    status = os.stat(path)  # noqa: PTH116
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "special file")
        raise OSError(errno.EINVAL, f"it is a {kind}, not a file", str(path))
    if largest is not None and status.st_size > largest:
        raise OSError(errno.EFBIG, f"it has {status.st_size:,} bytes, and {largest:,} are read", str(path))


def check_files(folder: str | Path) -> None:
    """Check that everything in a folder is a regular file, or a folder; OSError if it is not."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_dir():
                check_file(entry.path)


def read_file(path: str | Path, largest: int = LARGEST) -> bytes:
    """Return the bytes of a regular file; see `check_file`."""
    check_file(path, largest)
    return Path(path).read_bytes()


def read_json(path: str | Path, largest: int = LARGEST) -> Any:
    """Return what a JSON file holds; see `read_file` and `parse_json`."""
    return parse_json(read_file(path, largest))


def parse_json(data: str | bytes) -> Any:
    """Return what JSON holds, given as a text or in UTF-8, in any thread, whatever the JSON is.

    Raises:
        ValueError: it is not UTF-8, not JSON, nested more than `DEEPEST` deep, or has an integer of thousands
            of digits, for which Python takes a time that grows with their square.
    """
    text = data if isinstance(data, str) else data.decode("utf-8-sig")
    opened = sum(text.count(sign) - text.count(f'"{sign}') for sign in "[{")  # but those that begin a string
    if opened > DEEPEST and _depth(text) > DEEPEST:
        raise ValueError(f"nested more than {DEEPEST} deep")
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # names a function of Python's
        raise ValueError("an integer has thousands of digits") from None


def _depth(text: str) -> int:
    """Return how many brackets are open at most, without those in strings."""
    brackets = re.sub(_NO_BRACKET, "", re.sub(_STRING, "", text))
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0)


def check_form(value: Any, form: Any, name: str) -> None:
    """Check that a value of JSON has a form.

    Args:
        value: of JSON.
        form: an annotation of bool, int (0 or more), float (finite), str (without zero bytes and surrogates),
            None, list, tuple (of fixed length, a list in JSON), dict, TypedDict, Literal, Union or Any.
        name: what the error calls the value.

    Raises:
        ValueError: it has not.
    """
    if not _fits(value, form, name):
        raise ValueError(f"{name} is {textwrap.shorten(ascii(value), 80)}")


def _fits(value: Any, form: Any, name: str) -> bool:
    """Return whether a value has a form; what is wrong inside is raised with its own name."""
    origin, inside = get_origin(form), get_args(form)
    if form is Any:
        return _is_whole(json.dumps(value, ensure_ascii=False))
    if origin in (Union, UnionType):
        return any(_fits_inside(value, one) for one in inside)
    if origin is Literal:
        return isinstance(value, str) and value in inside
    if origin is tuple:
        return isinstance(value, list) and len(value) == len(inside) and all(map(_fits_inside, value, inside))
    if origin in (list, dict):
        if not isinstance(value, origin):
            return False
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            check_form(one, inside[-1], f"{name}[{key!r}]")
        return True
    if is_typeddict(form):
        if not isinstance(value, dict) or form.__required_keys__ - value.keys():
            return False
        for key, one in get_type_hints(form).items():
            if key in value:
                check_form(value[key], one, f"{name}.{key}")
        return True
    return _is_plain(value, form)


def _is_whole(text: str) -> bool:
    """Return whether a text holds no half of a character."""
    return text.isascii() or not re.search(_SURROGATE, text)


def _fits_inside(value: Any, form: Any) -> bool:
    try:
        return _fits(value, form, "")
    except ValueError:
        return False


def _is_plain(value: Any, form: Any) -> bool:
    if form in (int, float):
        of_kind = isinstance(value, int if form is int else int | float) and not isinstance(value, bool)
        return of_kind and (0 if form is int else -(2**63)) <= value < 2**63  # NaN is not
    if form is str:
        return isinstance(value, str) and "\0" not in value and _is_whole(value)
    return isinstance(value, form)
