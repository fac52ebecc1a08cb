"""Reads a photo again from where a source said it is."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lexlip.data.images import UnreadableImage
from lexlip.data.source import read_file
from lexlip.data.tar_headers import members
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
        UnreadableImage: it is not there any more.
    """
    path = Path(location)
    for parent in path.parents:
        if parent.suffix.lower() == ".tar" and parent.is_file():
            return _read_member(parent, path.relative_to(parent).as_posix())
    return read_file(path)


def _read_member(tar: Path, name: str) -> bytes:
    """Return the bytes of a tar's member; of two with the same name the later one, as `list_shard` does."""
    found = None
    try:
        with (
            tar.open("rb") as file,
            suppress(tarfile.TarError, ValueError),
        ):  # the members before the damage count
            for member in members(file):
                if member.name.removeprefix("./") == name:
                    found = member
    except OSError as error:
        raise UnreadableImage(error.strerror or str(error), str(tar)) from error
    if found is None:
        raise UnreadableImage("not in the tar", f"{tar}/{name}")
    return read_file(tar, found.offset, found.size)
