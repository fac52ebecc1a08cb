"""Reads a photo again from where a source said it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lexlip.data.files import open_file, path_of, reason_of
from lexlip.data.images import UnreadableImage
from lexlip.data.source import Place, read_place
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
    return read_place(find_location(location))


def find_location(location: str) -> Place:
    """Return where the bytes of such a photo are; of two members with the same name the later one counts.

    Raises:
        UnreadableImage, DataError: see `read_location`.
    """
    path = path_of(location)
    tar = next((above for above in path.parents if above.suffix.lower() == ".tar" and above.is_file()), None)
    if tar is None:
        return Place(str(path))
    try:
        with open_file(tar) as file:
            found = contents(file).files.get(path.relative_to(tar).as_posix())
    except OSError as error:
        raise UnreadableImage(reason_of(error), str(tar)) from error
    if found is None:
        raise UnreadableImage("not in the tar", location)
    return Place(str(tar), found.offset, found.size)
