"""Photos in a folder and the folders below it."""

import os
from pathlib import Path
from typing import NamedTuple

from lexlip.data.images import SUFFIXES, UnreadableImage
from lexlip.data.source import Item, Skipped, Source, caption_lines, read_file


class Listing(NamedTuple):
    """Files below a folder, as sorted POSIX paths relative to it."""

    photos: list[str]
    tars: list[str]
    texts: set[str]
    skipped: list[Skipped]


def walk(root: Path) -> Listing:
    """Return the photos, tars and texts below a folder.

    Hidden files and folders are left out. Each folder is visited once, so that loops of links end.
    """
    found = Listing([], [], set(), [])
    folders = [""]
    links: list[str] = []  # visited last, so that a file is named by its real folder if that is below too
    visited = set()
    while folders or links:
        folder = folders.pop() if folders else links.pop()
        try:
            status = (root / folder).stat()
            if (status.st_dev, status.st_ino) in visited:
                continue
            visited.add((status.st_dev, status.st_ino))
            with os.scandir(root / folder) as entries:
                for entry in entries:
                    _sort_in(entry, f"{folder}/{entry.name}" if folder else entry.name, found, folders, links)
        except OSError as error:
            found.skipped.append(Skipped(folder or str(root), error.strerror or str(error)))
    for names in (found.photos, found.tars, found.skipped):
        names.sort()
    return found


def _sort_in(
    entry: os.DirEntry[str], name: str, found: Listing, folders: list[str], links: list[str]
) -> None:
    if entry.name.startswith("."):
        return
    suffix = os.path.splitext(entry.name)[1].lower()  # noqa: PTH122 (a Path per file is slow)
    if not _is_utf8(name):
        if entry.is_dir() or suffix in SUFFIXES:
            readable = os.fsencode(name).decode("utf-8", "backslashreplace")
            found.skipped.append(Skipped(readable, "the name is not UTF-8"))
    elif entry.is_dir():
        (links if entry.is_symlink() else folders).append(name)
    elif suffix in SUFFIXES and not entry.is_file():
        reason = "a link to nothing" if entry.is_symlink() else "not a file"
        found.skipped.append(Skipped(name, reason))
    elif suffix in SUFFIXES:
        found.photos.append(name)
    elif suffix == ".tar":
        found.tars.append(name)
    elif suffix == ".txt":
        found.texts.add(name)


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


class FolderSource(Source):
    """Photos below a folder; `NAME.txt` beside a photo holds its captions, one per line.

    The id of a photo is its path relative to the folder.

    Args:
        root: the folder.
        listing: what is in it, see `walk`.
        name: what the user gave.
    """

    def __init__(self, root: Path, listing: Listing, name: str) -> None:
        self.name = name
        self.root = root.absolute()
        self.roots = [str(self.root)]
        self.skipped = list(listing.skipped)
        self.skipped += [
            Skipped(tar, "a tar among photos: give it by itself to read it") for tar in listing.tars
        ]
        self.items = [Item(photo, self._captions(photo, listing.texts)) for photo in listing.photos]

    def _captions(self, photo: str, texts: set[str]) -> tuple[str, ...]:
        text = photo.rpartition(".")[0] + ".txt"
        try:
            return caption_lines(read_file(self.root / text)) if text in texts else ()
        except UnreadableImage as error:
            self.skipped.append(Skipped(text, error.reason))
            return ()

    def read(self, index: int) -> bytes:
        return read_file(self.path(index))

    def path(self, index: int) -> str:
        return f"{self.root}/{self.items[index].id}"
