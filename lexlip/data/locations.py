"""Reads a photo again from where a source said it lies."""

from __future__ import annotations

import tarfile
from pathlib import Path

from lexlip.data.images import UnreadableImage
from lexlip.data.source import read_file


def read_location(location: str) -> bytes:
    """The bytes of a photo, given what `Source.path` returned: a file, or a tar and the member's name.

    Raises:
        UnreadableImage: it is not there any more.
    """
    path = Path(location)
    for parent in path.parents:
        if parent.suffix == ".tar" and parent.is_file():
            try:
                with tarfile.open(parent) as tar:
                    member = tar.extractfile(path.relative_to(parent).as_posix())
                    if member is None:
                        raise UnreadableImage("not a file", location)
                    return member.read()
            except (KeyError, tarfile.TarError, OSError) as error:
                raise UnreadableImage(str(error), location) from error
    return read_file(path)
