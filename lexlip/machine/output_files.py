"""Files that a user names for results: checked before the work, and written as a whole."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lexlip.errors import writing


def check_output(path: str | Path, what: str = "") -> None:
    """Check that a file can be written, before the work that it is for; its folder must exist.

    `what` is what the error calls it, with a space at its end. DataError: it is a folder, or cannot be
    written.
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
    """Write a file as a whole, or leave the old one and raise DataError; see `check_output`.

    After a crash of the machine one of both is there.
    """
    check_output(path, what)
    with writing(f"{what}{path}"), replacing(Path(path)) as temporary:
        temporary.write_bytes(data)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())


def write_new(file: Path, data: bytes, times: tuple[int, int] | None = None) -> None:
    """Write a file as a whole where there is none, with times in ns as `os.utime` takes them.

    FileExistsError: there is one by now, which stays.
    """
    temporary = file.with_name(f".{file.name[:40]}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        if times is not None:
            os.utime(temporary, ns=times)
        try:
            file.hardlink_to(temporary)
        except FileExistsError:
            raise
        except OSError:  # of a file system that has no links, such as FAT
            file.open("xb").close()  # from here on the name is taken
            try:
                temporary.replace(file)
            except BaseException:
                file.unlink()
                raise
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """Yield a place beside a file for its new content, which replaces it unless the `with` block fails."""
    temporary = file.with_name(f".{file.name[:40]}.{os.getpid()}")
    try:
        yield temporary
        temporary.replace(file)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
