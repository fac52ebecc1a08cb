"""Photos in a folder and the folders below it."""

import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from lexlip.data.files import out_of_reach, read_captions, read_file, reason_of
from lexlip.data.images import SUFFIXES, UnreadableImage
from lexlip.data.source import Item, Skipped, Source, Unlisted, caption_lines
from lexlip.data.texts import Beside
from lexlip.plain_text import readable

UNDECODED = (
    *(".mp4", ".mov", ".m4v", ".avi", ".mkv", ".webm", ".mts", ".m2ts", ".3gp", ".mpg", ".mpeg", ".wmv"),
    *(".dng", ".cr2", ".cr3", ".nef", ".nrw", ".arw", ".raf", ".orf", ".rw2", ".pef", ".srw", ".x3f"),
    *(".psd", ".psb", ".xcf", ".svg", ".eps", ".ai", ".jp2", ".jxl", ".exr", ".hdr", ".tga"),
)
"""Suffixes of pictures and videos that cannot be decoded: these are counted."""

NOT_UTF8 = "the name is not UTF-8"

_DATA_FOLDER = re.compile(r"data-[1-9][0-9]*")

Excluded = Callable[[str], bool]
"""Whether a path below the folder is left out; the path of a folder ends with a slash."""


class Listing(NamedTuple):
    """Files below a folder, as sorted POSIX paths relative to it; `sides` are XMP files.

    `unlisted` are folders that could not be listed, and links that lead to something out of reach.
    """

    photos: list[str]
    tars: list[str]
    texts: set[str]
    skipped: list[Skipped]
    sides: set[str]
    unlisted: list[Unlisted]


def walk(root: Path, excluded: Excluded | None = None) -> Listing:
    """Return the photos, tars, texts and XMP files below a folder.

    Hidden files and folders are left out, and folders that hold an index. A link to a folder is followed, but
    each folder is visited once, so that loops of links end.
    """
    found = Listing([], [], set(), [], set(), [])
    undecoded: Counter[str] = Counter()
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
            with os.scandir(root / folder) as scanned:
                entries = list(scanned)
            if _is_index({entry.name for entry in entries}):
                continue
            for entry in entries:
                name = f"{folder}/{entry.name}" if folder else entry.name
                _sort_in(entry, name, found, folders, links, undecoded, excluded)
        except OSError as error:
            found.unlisted.append(Unlisted(folder, reason_of(error)))
    found.skipped.extend(Skipped(place.id or str(root), place.reason) for place in found.unlisted)
    for names in (found.photos, found.tars, found.skipped):
        names.sort()
    if undecoded:
        found.skipped.append(Skipped(".", _kinds(undecoded)))
    return found


def holds_index(folder: Path) -> bool:
    """Return whether a folder holds an index, whose files and thumbnails are no photos to search."""
    try:
        return _is_index(set(os.listdir(folder)))  # noqa: PTH208
    except OSError:
        return False


def _kinds(kinds: Counter[str]) -> str:
    """Return in words how many files of which suffixes cannot be decoded."""
    named = ", ".join(f"{number} {suffix}" for suffix, number in kinds.most_common())
    return f"files of kinds that cannot be decoded: {named}"


def _is_index(names: set[str]) -> bool:
    return "index.json" in names and any(map(_DATA_FOLDER.fullmatch, names))


def _sort_in(
    entry: os.DirEntry[str],
    name: str,
    found: Listing,
    folders: list[str],
    links: list[str],
    undecoded: Counter[str],
    excluded: Excluded | None,
) -> None:
    if entry.name.startswith("."):
        return
    suffix = os.path.splitext(entry.name)[1].lower()  # noqa: PTH122 (a Path per file is slow)
    kind, unlisted = _kind(entry, suffix)
    if excluded is not None and excluded(f"{name}/" if kind == "folder" or unlisted else name):
        return
    if not is_utf8(name):
        if kind == "folder" or suffix in SUFFIXES:
            found.skipped.append(Skipped(shown(name), NOT_UTF8))
    elif unlisted:
        found.unlisted.append(Unlisted(name, unlisted, 1 if suffix in SUFFIXES else None))
    elif kind == "folder":
        (links if entry.is_symlink() else folders).append(name)
    elif kind != "file":
        if suffix in (*SUFFIXES, ".tar"):
            found.skipped.append(Skipped(name, kind))
    elif suffix in SUFFIXES:
        found.photos.append(name)
    elif suffix == ".tar":
        found.tars.append(name)
    elif suffix == ".txt":
        found.texts.add(name)
    elif suffix == ".xmp":
        found.sides.add(name)
    elif suffix in UNDECODED:
        undecoded[suffix] += 1


def _kind(entry: os.DirEntry[str], suffix: str) -> tuple[str, str]:
    """Return what an entry is: "folder", "file", or what to say of another one; and why it is out of reach.

    A link may lead to what cannot be looked at, or to itself. If it leads to nothing it may have been a
    folder or a tar of a disk that is not mounted now; but if a photo is gone, its link is one photo less.
    """
    try:
        if entry.is_dir():
            return "folder", ""
        if entry.is_file():
            return "file", ""
        if not entry.is_symlink() or entry.stat():
            return "not a file", ""
    except OSError as error:
        if out_of_reach(error):
            return "", reason_of(error)
    lost = suffix not in (*SUFFIXES, *UNDECODED, ".txt", ".xmp")
    return "a link to nothing", "a link to nothing" if lost else ""


def shown(name: str) -> str:
    """Return a name that is not UTF-8 with its bytes as escapes."""
    try:
        return os.fsencode(name).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # no file can have it
        return readable(name)


def is_utf8(name: str) -> bool:
    """Return whether a name can be stored."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


class FolderSource(Source):
    """Photos below a folder, with files beside them.

    `NAME.txt` beside a photo holds its captions, one per line; `NAME.xmp` or `NAME.jpg.xmp` what photo
    programs write about it. The id of a photo is its path relative to the folder.

    Args:
        root: the folder.
        listing: what is in it, see `walk`.
        name: what the user gave.
    """

    def __init__(self, root: Path, listing: Listing, name: str) -> None:
        self.name = name
        self.root = root.absolute()
        self.roots = [str(self.root)]
        self.skipped, self.unlisted = list(listing.skipped), listing.unlisted
        self.skipped += [
            Skipped(tar, "a tar among photos: give it by itself to read it") for tar in listing.tars
        ]
        texts = Beside(listing.texts)
        self.items = [Item(photo, self._captions(photo, texts)) for photo in listing.photos]
        self._sides = Beside(listing.sides)

    def _captions(self, photo: str, texts: Beside) -> tuple[str, ...]:
        text = texts.find(photo.rpartition(".")[0], ".txt")
        if text is None:
            return ()
        try:
            return caption_lines(read_captions(self.root / text))
        except (UnreadableImage, ValueError) as error:
            self.skipped.append(Skipped(text, getattr(error, "reason", str(error))))
            return ()

    def read(self, index: int) -> bytes:
        return read_file(self.path(index))

    def path(self, index: int) -> str:
        return f"{self.root}/{self.items[index].id}"

    def side(self, index: int) -> str | None:
        photo = self.items[index].id
        stems = (photo, photo.rpartition(".")[0])
        found = next((name for stem in stems if (name := self._sides.find(stem, ".xmp"))), None)
        return None if found is None else f"{self.root}/{found}"
