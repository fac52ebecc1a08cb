"""Reads a photo again from where a source said it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lexlip.data.files import open_file, path_of, read_file, reason_of
from lexlip.data.images import UnreadableImage
from lexlip.data.tar_headers import contents
from lexlip.errors import DataError


@contextmanager
def reading(location: str | Path) -> Iterator[None]:
    """Name the picture in the error if a `with` block cannot read it.

    Raises:
        DataError: the block raised UnreadableImage.
    """
    try:
        yield
    except UnreadableImage as error:
        raise DataError(f"cannot read the picture {location}: {error.reason}") from error


def read_location(location: str) -> bytes:
    """Return the bytes of a photo, given what `Source.path` returned: a file, or TAR/MEMBER.

    Raises:
        UnreadableImage: it is not there any more, or is no file.
        DataError: it is in the home of a user who does not exist.
    """
    path = path_of(location)
    for parent in path.parents:
        if parent.suffix.lower() == ".tar" and parent.is_file():
            return _read_member(parent, path.relative_to(parent).as_posix())
    return read_file(path)


def _read_member(tar: Path, name: str) -> bytes:
    """Return the bytes of a tar's member; of two with the same name the later one, as `list_shard` does."""
    try:
        with open_file(tar) as file:
            found = contents(file).files.get(name)
    except OSError as error:
        raise UnreadableImage(reason_of(error), str(tar)) from error
    if found is None:
        raise UnreadableImage("not in the tar", f"{tar}/{name}")
    return read_file(tar, found.offset, found.size)
