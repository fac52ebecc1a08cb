"""The folder of an index on disk: durable writes, one writer at a time, removal of leftovers.

::

    DIR/index.json           names the data folder in use; replaced atomically
    DIR/writer.lock          held by the one process that writes; marks the folder as an index
    DIR/data-<n>/            the index's files; in an impact index vocabulary.txt and
    DIR/data-<n>/lucene/     a plain Lucene index
    DIR/unfinished/          what a caller keeps for the next run, until an index is complete
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
import os
import re
import sys
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Self

from anserini_bridge.errors import BridgeError, CorruptIndex, IndexLocked, IndexNotFound
from anserini_bridge.given_files import check_files, read_file

METADATA_FILE = "index.json"
LOCK_FILE = "writer.lock"
UNFINISHED = "unfinished"
CHECKSUM = "checksum"
"""The field of a JSON file that holds `fields_checksum`."""

_BLOCK = 2**20  # bytes read at a time
DATA_FOLDER = re.compile(r"data-([1-9][0-9]*)")
WINDOWS: bool = sys.platform == "win32"
_PATIENCE = 5.0  # seconds that a reader may have a file open which Windows then cannot replace


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[IO[str]]:
    """Open a UTF-8 file that appears at path, complete and durable, only if the block succeeds."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)


def _replace(temporary: Path, path: Path) -> None:
    """Give a file the name of another, which it replaces, or a folder a name that is free.

    On Windows that waits until no reader has the other, or a file in the folder, open.
    """
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            temporary.replace(path)
            return
        except PermissionError:
            if not WINDOWS or time.monotonic() > until:
                raise
        time.sleep(0.01)


def checksum(file: Path) -> str:
    """Return the CRC-32 of a file, 8 hexadecimal digits; it finds every error of up to 32 bits in a row.

    Raises:
        OSError: the file cannot be read.
    """
    with file.open("rb") as content:
        return f"{crc32(content):08x}"


def crc32(content: IO[bytes], size: int = sys.maxsize) -> int:
    """Return the CRC-32 of the next bytes of a file, at most `size`."""
    value = 0
    while block := content.read(min(_BLOCK, size)):
        value = zlib.crc32(block, value)
        size -= len(block)
    return value


def fields_checksum(fields: Mapping[str, Any]) -> str:
    """Return the checksum that a JSON file holds of its other fields: a CRC-32, 8 hexadecimal digits."""
    content = {name: value for name, value in fields.items() if name != CHECKSUM}
    return f"{zlib.crc32(json.dumps(content, sort_keys=True).encode()):08x}"


def remove_folder(folder: Path) -> None:
    """Delete a folder with all that it holds, as far as that can be."""
    import shutil  # which who only searches need not load

    shutil.rmtree(folder, ignore_errors=True)


def replace_folder(temporary: Path, folder: Path) -> None:
    """Give a complete folder the name of another, which it replaces; both lie in the same folder.

    All its files are durable before it has the name, and so is the name when this returns. The old folder
    stays whole until then, under a hidden name.

    Raises:
        OSError: a folder cannot be renamed, on Windows because a file in it stays open; the old one is there.
    """
    for path in (*temporary.rglob("*"), temporary):
        sync(path)
    old = folder.with_name(f".{folder.name}.old")
    remove_folder(old)
    if folder.exists():
        _replace(folder, old)
    try:
        _replace(temporary, folder)
    except OSError:
        if old.exists():
            old.replace(folder)
        raise
    sync(folder.parent)
    remove_folder(old)


def replace_link(link: Path, target: Path) -> None:
    """Point a link, there or not, to a folder, durably, and at once where the system can.

    The target is as seen from the link's folder. Windows replaces no link to a folder, so there is none for
    a moment. Without its developer mode it makes no symbolic link either, but a junction, which is lost when
    the folders are moved.
    """
    temporary = link.with_name(f".{link.name}")
    temporary.unlink(missing_ok=True)
    try:
        temporary.symlink_to(target, target_is_directory=True)
    except OSError:
        if not WINDOWS:
            raise
        winapi = importlib.import_module("_winapi")  # the shell's mklink would read signs in names
        winapi.CreateJunction(str(link.parent.resolve() / target), str(temporary))
    if WINDOWS:
        link.unlink(missing_ok=True)
    temporary.replace(link)
    sync(link.parent)


def remove(file: Path) -> None:
    """Delete a file, if it is there; on Windows one that somebody has open stays."""
    try:
        file.unlink(missing_ok=True)
    except PermissionError:
        if not WINDOWS:
            raise


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, durable.

    Windows opens no folders, and makes only those files durable that are opened to be written.
    """
    if WINDOWS and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if WINDOWS else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unreadable(file: str | Path, error: OSError) -> BridgeError:
    """Return the error to raise if a file or a folder of an index cannot be read."""
    if error.errno == errno.ENAMETOOLONG:
        return BridgeError(f"{error.filename or file} is too long for a name: give a shorter one")
    return BridgeError(
        f"{error.filename or file} cannot be read ({error.strerror or error}):"
        " check it and its permissions, or give the folder of another index"
    )


def check_writable(path: Path, *folders: str) -> None:
    """Check that an index can be written, and some of its folders, before the work; OSError if not.

    If there is no index yet, the folder above it counts.
    """
    while not path.exists():
        path = path.parent
    for folder in (path, *(path / name for name in folders)):
        if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def check_data(path: Path, folder: str = ".") -> None:
    """Check the files in a folder of an index, before something else opens them: a pipe would block it.

    Raises:
        CorruptIndex: the folder is missing, or holds something else than files and folders.
        BridgeError: it cannot be read.
    """
    try:
        check_files(path / folder)
    except PermissionError as error:
        raise unreadable(path / folder, error) from None
    except OSError as error:
        raise CorruptIndex(
            f"the index at {path} is damaged ({error.filename}: {error.strerror}): build it again"
        ) from None


class WriterLock:
    """The lock of the one process that writes to the index at path, held inside a `with` block.

    The operating system releases it when the process dies.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path / LOCK_FILE

    def __enter__(self) -> Self:
        """Take the lock; make the folder if it is missing.

        Raises:
            IndexLocked: another writer holds the lock.
            IndexNotFound: path is a file, or a folder of other files.
        """
        while True:
            self._made_folder = not self.path.exists()
            try:
                self.path.mkdir(parents=True, exist_ok=True)
            except FileExistsError:
                raise IndexNotFound(f"{self.path} is a file: give a new or an empty folder") from None
            with contextlib.suppress(FileNotFoundError):  # another writer has just removed the folder
                self._check_folder()
                self._descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o644)
                if self._acquire():
                    return self

    def __exit__(self, *error: object) -> None:
        """Release the lock; remove it, and a folder that was made for it, if there is no index."""
        if WINDOWS:  # where an open file cannot be removed, not even one that another writer has just locked
            os.close(self._descriptor)
        if not any((self.path / name).exists() for name in (METADATA_FILE, UNFINISHED)):
            remove(self._file)
            if self._made_folder:
                with contextlib.suppress(OSError):  # somebody put a file there
                    self.path.rmdir()
        if not WINDOWS:
            os.close(self._descriptor)

    def _check_folder(self) -> None:
        names = sorted(entry.name for entry in self.path.iterdir())
        if names and LOCK_FILE not in names and not _is_ours(self.path / METADATA_FILE):
            raise IndexNotFound(
                f"{self.path} holds other files, such as {names[0]}, and no index:"
                " give a new or an empty folder"
            )

    def _acquire(self) -> bool:
        """Lock the open file; return False if it was deleted in the meantime."""
        from filelock import lock_descriptor

        with contextlib.suppress(FileNotFoundError):
            if not lock_descriptor(self._descriptor, blocking=False):
                os.close(self._descriptor)
                raise IndexLocked.at(self.path)
            if os.fstat(self._descriptor).st_ino == self._file.stat().st_ino:
                return True
        os.close(self._descriptor)
        return False


def _is_ours(file: Path) -> bool:
    try:
        return b'"format_version"' in read_file(file)
    except OSError:
        return False


def remove_leftovers(path: Path, keep: str | None, *more: str) -> None:
    """Delete files of interrupted writers: half-written files, and every data folder except those to keep.

    The caller holds the lock of the index.
    """
    for folder in _data_folders(path).values():
        if folder.name not in (keep, *more):
            remove_folder(folder)
    (path / f"{METADATA_FILE}.tmp").unlink(missing_ok=True)


def folder_megabytes(path: Path) -> float:
    """Return the size of all files below a folder, in MB (10^6 bytes)."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / 1e6


def next_data_folder(path: Path) -> str:
    """Return the name of a data folder that does not exist yet."""
    return f"data-{max(_data_folders(path), default=0) + 1}"


def _data_folders(path: Path) -> dict[int, Path]:
    """Return the data folders of the index at path by their number."""
    found = [(DATA_FOLDER.fullmatch(entry.name), entry) for entry in path.glob("data-*")]
    return {int(match[1]): entry for match, entry in found if match}
