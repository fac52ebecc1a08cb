"""Which photos of an index may be sent to others, and that these are what was indexed.

`lexlip serve` and `lexlip mcp` send the files that a table of photos names. Anyone may have made the table,
or have put another file, or a link, where a photo was.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from anserini_bridge import IndexHeader
from lexlip.data.facts import digest
from lexlip.data.files import (
    FileState,
    Place,
    is_below,
    path_of,
    read_part,
    reading_file,
    real_place,
    state_of,
)
from lexlip.data.images import UnreadableImage, open_image, quiet
from lexlip.errors import ConfigError
from lexlip.retrieval.seal import sealed_tables

CHANGED = "not what was indexed: update the index"
ELSEWHERE = "not in a folder whose photos may be sent"


def folders_to_send(names: Sequence[str]) -> tuple[str, ...]:
    """Return the real paths of folders whose photos a user names to be sent; ConfigError: one is none."""
    folders = tuple(os.path.realpath(path_of(name)) for name in names)
    for name, folder in zip(names, folders, strict=True):
        if not os.path.isdir(folder):  # noqa: PTH112
            raise ConfigError(f"--photos is {name}, which is no folder: give one with photos of the index")
    return folders


def why_not_sent(index: Path, header: IndexHeader, folders: Sequence[str]) -> str:
    """Return in a line why no photo of an index may be sent, and what to do; "" if some may."""
    if folders or sealed_tables(header.extra):
        return ""
    return (
        f"photos are not sent, as this user has not made the index {index}: give --photos FOLDER for those of"
        f" a folder, or index again, with SOURCE: lexlip index SOURCE --index {index}"
    )


def read_as_indexed(
    place: Place, known_digest: str, known_state: str, folders: Iterable[str], sealed: bool
) -> bytes:
    """Return the bytes of a photo if they are those that were indexed, and lie where they may.

    They are if they have the same digest; or, if it is not known, if the file has the same state. What is
    neither known of is a picture, at least, in a folder that the user named.

    Args:
        place: of the photo.
        known_digest: of its bytes; "" is unknown.
        known_state: of its files, see `lexlip.data.Source.state`; "" is unknown.
        folders: real paths of those in which photos may lie.
        sealed: links may lead elsewhere if they and what they lead to are as when they were indexed; and
            what is known was not made up.

    Raises:
        UnreadableImage: they are not, or cannot be read.
    """
    try:
        before = state_of(place.file)
        with reading_file(place.file) as file:
            same = before is not None and str(before) == known_state.partition("; ")[0]
            same = same and _is_of(before, file.fileno())
            if not is_below(real_place(file), folders) and not (sealed and same):
                raise UnreadableImage(ELSEWHERE, place.file)
            data = read_part(file, place.offset or 0, -1 if place.size is None else place.size)
            same = same and _is_of(before, file.fileno())
    except ValueError as error:  # no path can hold this
        raise UnreadableImage(str(error), place.file) from None
    if known_digest:
        same = digest(data) == known_digest
    elif not known_state and not sealed:
        same = _is_picture(data)
    if not same:
        raise UnreadableImage(CHANGED, place.file)
    return data


def _is_of(state: FileState | None, descriptor: int) -> bool:
    """Return whether an open file has a state."""
    now = os.fstat(descriptor)
    return state is not None and (state.size, *state.times[:2]) == (
        now.st_size,
        now.st_mtime_ns,
        now.st_ctime_ns,
    )


def _is_picture(data: bytes) -> bool:
    try:
        with quiet(), open_image(data):
            return True
    except UnreadableImage:
        return False
