"""The folder of an index on disk: durable writes, one writer at a time, leftovers.

::

    DIR/index.json           points to the folder that counts; replaced atomically
    DIR/writer.lock          held by the one process that writes; marks the folder as an index
    DIR/data-<n>/            the index's files; of an impact index vocabulary.txt and
    DIR/data-<n>/lucene/     a plain Lucene index
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from .errors import IndexLocked, IndexNotFound

METADATA_FILE = "index.json"
LOCK_FILE = "writer.lock"


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[IO[str]]:
    """Opens a UTF-8 file that takes its name, complete and on disk, only when the block succeeds."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)


def sync(path: Path) -> None:
    """Makes a file, or the names inside a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class WriterLock:
    """Held while writing to the index at path; the system releases it when the process dies."""

    def __init__(self, path: Path) -> None:
        """Takes the lock, making the folder where it is missing.

        Raises IndexLocked, or IndexNotFound where the folder holds other people's files.
        """
        self.path = path
        self._file = path / LOCK_FILE
        while True:
            self._made_folder = not path.exists()
            try:
                path.mkdir(parents=True, exist_ok=True)
            except FileExistsError:
                raise IndexNotFound(f"{path} is a file: give a new or an empty folder.") from None
            self._check_folder()
            with contextlib.suppress(FileNotFoundError):  # another writer has just tidied up
                self._descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o644)
                if self._acquire():
                    return

    def _check_folder(self) -> None:
        names = sorted(entry.name for entry in self.path.iterdir())
        if names and LOCK_FILE not in names and not _is_ours(self.path / METADATA_FILE):
            raise IndexNotFound(
                f"{self.path} holds other files, such as {names[0]}, and no index: "
                "give a new or an empty folder."
            )

    def _acquire(self) -> bool:
        """True when the lock is ours; False when its file was deleted meanwhile."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(self._descriptor).st_ino == self._file.stat().st_ino:
                return True
        except BlockingIOError:
            os.close(self._descriptor)
            raise IndexLocked(
                f"Another process is writing to the index at {self.path}: wait until it has finished."
            ) from None
        except FileNotFoundError:
            pass
        os.close(self._descriptor)
        return False

    def release(self) -> None:
        """Gives the lock back; of a first build that failed, leaves nothing behind."""
        if not (self.path / METADATA_FILE).exists():
            self._file.unlink(missing_ok=True)
            if self._made_folder:
                with contextlib.suppress(OSError):  # somebody put a file there
                    self.path.rmdir()
        os.close(self._descriptor)


def _is_ours(file: Path) -> bool:
    return file.is_file() and b'"format_version"' in file.read_bytes()


def remove_leftovers(path: Path, keep: str | None) -> None:
    """Deletes every data folder but one, and half-written files; the writer's lock must be held."""
    for entry in path.glob("data-*"):
        if entry.name != keep and entry.name[5:].isdigit():
            shutil.rmtree(entry, ignore_errors=True)
    (path / f"{METADATA_FILE}.tmp").unlink(missing_ok=True)


def folder_megabytes(path: Path) -> float:
    """Returns what the files below a folder take, in MB (10^6 bytes)."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / 1e6


def next_data_folder(path: Path) -> str:
    """Returns the name of a data folder that does not exist yet."""
    numbers = [int(entry.name[5:]) for entry in path.glob("data-*") if entry.name[5:].isdigit()]
    return f"data-{max(numbers, default=0) + 1}"
