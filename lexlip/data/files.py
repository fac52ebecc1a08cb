"""Files that people name: regular ones only, no more of them than fits into memory; and where disks begin."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

from lexlip.errors import DataError, UnreadableImage

LARGEST_PHOTO = 2**30  # bytes of a photo's file
LARGEST_CAPTIONS = 2**20  # bytes of a file of captions beside a photo
LARGEST_TABLE = 2**31  # bytes of a file of captions
LEADS_OUT = "a link to a file elsewhere"

_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ENXIO)


class OutOfReach(UnreadableImage):
    """A file that is there but cannot be opened or read now: a permission, a disk, a share."""


def out_of_reach(error: OSError) -> bool:
    """Return whether an error leaves open what is there."""
    return error.errno not in _NOT_THERE


def reason_of(error: OSError) -> str:
    return error.strerror or str(error)


def path_of(name: str | Path) -> Path:
    """Return the path that a user names, with `~` understood; DataError: there is no user of that home."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        if re.match(r"~([/\\]|$)", str(name)):
            raise DataError(
                f"{name}: this user has no home folder: give the whole path, or set HOME"
            ) from None
        raise DataError(f"{name} names a user who does not exist: write ./{name} for a file") from None


def kept_folder(variable: str, usual: str) -> Path:
    """Return the folder of what LexLIP keeps for a user, by a variable or a usual place below ~.

    As XDG has it, a relative path does not count. FileNotFoundError: this user has no home folder.
    """
    folder = Path(os.environ.get(variable, ""))
    if not folder.is_absolute():
        folder = Path(os.path.expanduser(usual))  # noqa: PTH111 (Path fails without a home)
    if not folder.is_absolute():
        raise FileNotFoundError(errno.ENOENT, f"this user has no home folder: set {variable}")
    return folder / "lexlip"


def cache_folder() -> Path:
    """Return the folder of what can be made again; FileNotFoundError: see `kept_folder`."""
    return kept_folder("XDG_CACHE_HOME", "~/.cache")


def open_file(path: str | Path, follow: bool = True) -> BinaryIO:
    """Open a regular file; a pipe or a device, which may never end, is refused without waiting for it.

    Unless `follow`, so is a link to a file, on systems that can refuse it. OSError: it cannot be opened.
    UnreadableImage: it is no regular file.
    """
    flags = getattr(os, "O_NONBLOCK", 0) | (0 if follow else getattr(os, "O_NOFOLLOW", 0))  # not on Windows

    def opener(path: str, usual: int) -> int:
        return os.open(path, usual | flags)

    file = open(path, "rb", opener=opener)  # noqa: SIM115 (a Path has no opener)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise UnreadableImage("not a file", str(path))
    return file


def read_file(path: str | Path, offset: int = 0, size: int = -1, most: int = LARGEST_PHOTO) -> bytes:
    """Return a file's bytes, or `size` of them from `offset` on.

    UnreadableImage: it is not there, is no regular file, ends before, or has more than `most` bytes.
    OutOfReach: it is there, but cannot be read now.
    """
    with reading_file(path) as file:
        return read_part(file, offset, size, most)


def read_part(file: BinaryIO, offset: int = 0, size: int = -1, most: int = LARGEST_PHOTO) -> bytes:
    """Return what `read_file` does, of a file that is open."""
    wanted = os.fstat(file.fileno()).st_size - offset if size < 0 else size
    if wanted > most:
        raise UnreadableImage(f"{wanted:,} bytes: more than {most:,}", file.name)
    file.seek(offset)
    data = file.read(wanted)
    if size > len(data):
        raise UnreadableImage("truncated", file.name)
    return data


@contextmanager
def reading_file(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file as `open_file` does, for a block that reads it; for what is raised see `read_file`."""
    try:
        with open_file(path) as file:
            yield file
    except OSError as error:
        kind = OutOfReach if out_of_reach(error) else UnreadableImage
        raise kind(reason_of(error), str(path)) from error


class Place(NamedTuple):
    """Where the bytes of a photo are: `size` bytes of a file, from `offset` on; None is the whole file."""

    file: str
    offset: int | None = None
    size: int | None = None


def read_place(place: Place) -> bytes:
    """Return the bytes of a photo; for what it raises see `read_file`."""
    return read_file(place.file, place.offset or 0, -1 if place.size is None else place.size)


def read_location(location: str) -> bytes:
    """Return the bytes of a photo, given what `Source.path` returned; it raises what `find_location` does."""
    return read_place(find_location(location))


def find_location(location: str) -> Place:
    """Return where a photo is: a file, or TAR/MEMBER; of two members with the same name the later one counts.

    UnreadableImage: it is not there any more, or is no file. DataError: there is no user of that home.
    """
    if "\0" in location:
        raise UnreadableImage("no file has such a name", location)
    path = path_of(location)
    tar = next((above for above in path.parents if above.suffix.lower() == ".tar" and above.is_file()), None)
    if tar is None:
        return Place(str(path))
    from lexlip.data.tar_headers import contents  # with what knows tars, only where there is one

    with reading_file(tar) as file:
        found = contents(file).files.get(path.relative_to(tar).as_posix())
    if found is None:
        raise UnreadableImage("not in the tar", location)
    return Place(str(tar), found.offset, found.size)


@contextmanager
def reading(location: str | Path) -> Iterator[None]:
    """Raise DataError, which names the picture, if a `with` block cannot read it."""
    try:
        yield
    except UnreadableImage as error:
        raise DataError(f"cannot read the picture {location}: {error.reason}") from error


def read_beside(path: str, roots: Iterable[str]) -> bytes:
    """Return the bytes of a file beside a photo, which is small.

    If it is a link, it must lie below one of `roots`, which are real paths; links to folders may lead out.
    UnreadableImage: it is a link that leads out, or see `read_file`.
    """
    with reading_file(path) as file:
        if leads_out(path, real_place(file), roots):
            raise UnreadableImage(LEADS_OUT, path)
        return read_part(file, most=LARGEST_CAPTIONS)


def leads_out(path: str, real: str, roots: Iterable[str]) -> bool:
    """Return whether a file is itself a link to what lies below none of some real paths, given its own."""
    if is_below(real, roots):
        return False
    folder, name = os.path.split(path)
    return real != os.path.join(os.path.realpath(folder), name)  # noqa: PTH118


def is_below(place: str, folders: Iterable[str]) -> bool:
    """Return whether a real path lies below one of some folders, which are real paths, too."""
    return any(place.startswith(os.path.join(folder, "")) for folder in folders)  # noqa: PTH118


def real_place(file: BinaryIO) -> str:
    """Return the path without links of an open file, whatever its name leads to by now."""
    opened = os.fstat(file.fileno())
    try:
        return os.readlink(f"/proc/self/fd/{file.fileno()}")  # noqa: PTH115
    except OSError:  # not Linux
        place = os.path.realpath(file.name)
    found = os.lstat(place)
    if not os.path.samestat(opened, found):
        raise UnreadableImage("another file has come to its place", file.name)
    return place


_MODIFIED = re.compile(r"\d{1,20} (-?\d{1,20}) ")  # at the begin of a state: the size comes first


class FileState(NamedTuple):
    """What changes with a file: its size, and its times of modification and change, in ns since 1970.

    Those of a link to it follow. A file that was moved here was changed when it was moved.
    """

    size: int
    times: tuple[int, ...]

    @property
    def written(self) -> int:
        """When the file or the link was last written, by the clock of that time."""
        return max(self.times)

    def __str__(self) -> str:
        return " ".join(map(str, (self.size, *self.times)))


def modified(state: str) -> str | None:
    """Return when a photo's file was modified, by the local clock: "2019-07-01T12:30:00".

    The state is that of `lexlip.data.Source.state`; None: it does not tell.
    """
    found = _MODIFIED.match(state)
    return by_the_clock(int(found[1]) // 10**9) if found else None


def by_the_clock(seconds: int | None) -> str | None:
    """Return a time, in seconds since 1970, in UTC, by the local clock: "2019-07-01T12:30:00"."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds).isoformat()
    except (OverflowError, ValueError, OSError):  # no calendar has such a year
        return None


def state_of(path: str | Path) -> FileState | None:
    try:
        found = link = os.lstat(path)
        if stat.S_ISLNK(link.st_mode):
            found = os.stat(path)  # noqa: PTH116 (a Path for each file is slow)
    except OSError:
        return None
    times = found.st_mtime_ns, found.st_ctime_ns
    return FileState(found.st_size, times if found is link else (*times, link.st_mtime_ns, link.st_ctime_ns))


# ---- where disks are mounted ----


_ESCAPED = rb"\\([0-7]{3})"


def mount_points(files: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the folders at which other file systems begin, by what the ids of photos there begin with.

    Given are pairs of a photo's id, or of the part of it that is a tar, and the path of that file.
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
    paths = (re.sub(_ESCAPED, lambda octal: bytes([int(octal[1], 8)]), line.split(b" ")[4]) for line in lines)
    return {os.fsdecode(path) for path in paths}
