"""Files that a user names for results: checked before the work, and written as a whole."""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from lexlip.errors import writing


def check_output(path: str | Path, what: str = "") -> None:
    """Check that a file can be written, before the work that it is for; its folder must exist.

    Args:
        path: of the file.
        what: what the error calls it, with a space at its end.

    Raises:
        DataError: it is a folder, or cannot be written.
    """
    path = Path(path)
    with writing(f"{what}{path}"):
        if os.path.isdir(path):  # noqa: PTH112 (pathlib raises for names that are too long)
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with suppress(FileNotFoundError):
            path.lstat()
        with tempfile.TemporaryFile(dir=path.parent):
            pass


def write_output(path: str | Path, data: bytes, what: str = "") -> None:
    """Write a file as a whole, or leave the old one; see `check_output`.

    Raises:
        DataError: it cannot be written.
    """
    path = Path(path)
    check_output(path, what)
    temporary = path.with_name(f".{path.name[:40]}.{os.getpid()}")
    with writing(f"{what}{path}"):
        try:
            temporary.write_bytes(data)
            temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
