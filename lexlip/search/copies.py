"""Copies of found photos in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePath

from lexlip.data.files import read_location
from lexlip.data.images import open_image, quiet
from lexlip.data.source import Skipped
from lexlip.errors import UnreadableImage, writing
from lexlip.retrieval.answer import Hit


def check_folder(folder: str | Path) -> None:
    """Make a folder for copies, if it is not there; DataError: it cannot be made, or is a file."""
    with writing(f"copies into {folder}"):
        Path(folder).mkdir(exist_ok=True)


def copy_hits(hits: Sequence[Hit], folder: str | Path) -> tuple[dict[str, str], list[Skipped]]:
    """Copy photos into a folder, under their own names; nothing there is replaced.

    A photo whose name is taken gets a number after it, unless its copy is there already.

    Returns:
        The path of each copy, by the photo's id; and what could not be read as a photo, with the reason.

    Raises:
        DataError: a copy cannot be written; those before it stay.
    """
    copies: dict[str, str] = {}
    skipped = []
    for hit in hits:
        try:
            data = read_location(hit.path)
            with quiet():
                open_image(data)  # a stranger's index may name any file
        except UnreadableImage as error:
            skipped.append(Skipped(hit.id, error.reason))
            continue
        with writing(f"copies into {folder}"):
            copies[hit.id] = str(_copy(data, Path(folder), PurePath(hit.path)))
            with suppress(OSError):  # a photo in a tar has no file of its own
                found = Path(hit.path).stat()
                os.utime(copies[hit.id], ns=(found.st_atime_ns, found.st_mtime_ns))
    return copies, skipped


def _copy(data: bytes, folder: Path, photo: PurePath) -> Path:
    for name in _names(photo):
        place = folder / name
        try:
            with place.open("xb") as file:
                try:
                    file.write(data)
                except BaseException:  # a full disk: no half of a photo stays
                    place.unlink()
                    raise
            return place
        except FileExistsError:
            if place.is_file() and place.stat().st_size == len(data) and place.read_bytes() == data:
                return place
    raise AssertionError("names do not end")


def _names(photo: PurePath) -> Iterator[str]:
    yield photo.name
    number = 2
    while True:
        yield f"{photo.stem} ({number}){photo.suffix}"
        number += 1
