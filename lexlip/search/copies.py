"""Copies of found photos in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from lexlip.data.images import open_image, quiet
from lexlip.data.source import Skipped
from lexlip.errors import UnreadableImage, writing
from lexlip.machine.output_files import write_new
from lexlip.machine.progress import ProgressBar
from lexlip.retrieval.answer import Hit
from lexlip.words.file_names import file_name, numbered


class Copies(NamedTuple):
    """What became of some hits: the path of each copy by the photo's id, and the reasons for what is none.

    `before` is the number of copies that were there before.
    """

    made: dict[str, str]
    skipped: list[Skipped]
    before: int


def check_folder(folder: str | Path) -> None:
    """Make a folder for copies, if it is not there; DataError: it cannot be made, or is a file."""
    with writing(f"copies into {folder}"):
        Path(folder).mkdir(exist_ok=True)


def copy_hits(
    hits: Sequence[Hit], read: Callable[[str], bytes], folder: str | Path, progress: bool = False
) -> Copies:
    """Copy photos into a folder, under their own names; nothing there is replaced.

    A photo whose name is taken gets a number after it, unless its copy is there already.

    Args:
        hits: the photos.
        read: returns the bytes of a photo, given its id.
        folder: where they go, which is there.
        progress: show how far it is.

    Raises:
        DataError: a copy cannot be written; those before it stay.
    """
    made: dict[str, str] = {}
    skipped, before = [], 0
    for hit in ProgressBar(hits, "copying", unit="photo", delay=2, disable=not progress):
        try:
            data = read(hit.id)
            with quiet():
                open_image(data)  # a stranger's index may name any file
        except UnreadableImage as error:
            skipped.append(Skipped(hit.id, error.reason))
            continue
        with writing(f"copies into {folder}"):
            copy, new = _copy(data, Path(folder), hit.path)
        made[hit.id] = str(copy)
        before += not new
    return Copies(made, skipped, before)


def _copy(data: bytes, folder: Path, photo: str) -> tuple[Path, bool]:
    """Return where the copy of a photo is, and whether it is new."""
    for name in numbered(file_name(photo)):
        place = folder / name
        if not os.path.lexists(place):
            with suppress(FileExistsError):
                write_new(place, data, _times(photo))
                return place, True
        if place.is_file() and place.stat().st_size == len(data) and place.read_bytes() == data:
            return place, False
    raise AssertionError("names do not end")


def _times(photo: str) -> tuple[int, int] | None:
    """Return when a photo's file was last read and written; None for one in a tar, which has no such file."""
    try:
        found = Path(photo).stat()
    except OSError:
        return None
    return found.st_atime_ns, found.st_mtime_ns
