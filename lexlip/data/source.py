"""What every source of photos offers."""

import io
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from PIL import Image

from lexlip.data.facts import Facts, decode_with_facts, facts_of_header
from lexlip.data.files import FileState, OutOfReach, open_file, read_beside, read_file, state_of
from lexlip.data.images import UnreadableImage, decode
from lexlip.data.texts import decode_text, lines_of
from lexlip.errors import DataError
from lexlip.words.plain_text import whole

LEFT = {
    "beside": "beside photos",
    "other": "of other kinds",
    "named": "named",
    "hidden": "hidden",
    "system": "with thumbnails or deleted files",
    "index": "with an index",
    "excluded": "excluded",
}
"""What becomes of files that are no photos, and how to say that; a folder that is left out counts as one."""


@dataclass(frozen=True, slots=True)
class Item:
    """One photo: an id that is unique within its source, and its captions (there may be none)."""

    id: str
    captions: tuple[str, ...]


class Skipped(NamedTuple):
    """Something that was found unusable while listing."""

    id: str
    reason: str


class Unreadable(NamedTuple):
    """A photo that cannot be used: its file's size, when that was last written (in ns), and why."""

    size: int
    written: int
    reason: str


class Unlisted(NamedTuple):
    """A place of a source that could not be listed, so it is not known which photos it holds.

    Attributes:
        id: ids of its photos are this, or begin with it and a slash; "" is the whole source.
        reason: why.
        photos: how many it holds; None is unknown.
    """

    id: str
    reason: str
    photos: int | None = None


class Place(NamedTuple):
    """Where the bytes of a photo are: `size` bytes of a file, from `offset` on; None is the whole file."""

    file: str
    offset: int | None = None
    size: int | None = None


@dataclass(frozen=True)
class Given:
    """What a user names as the photos of an index.

    Attributes:
        sources: see `lexlip.data.open.open_source`; with several, an id begins with the name of its source.
        images, split: see there.
        exclude: patterns as in a .gitignore, of paths below each source.
        include: patterns of what would be left out without them, see `lexlip.data.left_out`.
    """

    sources: tuple[str, ...]
    images: str | None = None
    split: str | None = None
    exclude: tuple[str, ...] = ()
    include: tuple[str, ...] = ()


def no_captions(name: str, which: str = "") -> DataError:
    """Return the error for a source whose photos have no captions where these are needed.

    Args:
        name: of the source.
        which: of its photos, such as " that can be read"; all by default.
    """
    way_on = "give photos with captions, in a .txt beside each or in a table"
    return DataError(f"no photo of {name}{which} has a caption: {way_on}")


class Source(ABC):
    """Photos with captions, listed at once and read one by one.

    A source holds no open files: it can be pickled, and used in forked and spawned workers.

    Attributes:
        name: what the user gave.
        items: the photos, in a fixed order; large sources make each one on demand.
        skipped: what was found unusable while listing.
        unlisted: places that could not be listed, which `skipped` names too.
        roots: the folders that paths of its photos begin with; there may be none.
        given: what the user named, if `open_library` opened it.
        left: how many files of a folder are no photos, by what becomes of them, see LEFT.
    """

    name: str
    items: Sequence[Item]
    skipped: list[Skipped]
    unlisted: Sequence[Unlisted] = ()
    roots: Sequence[str] = ()
    given: Given | None = None
    left: Counter[str] = Counter()  # noqa: RUF012 (nobody changes it)

    @abstractmethod
    def read(self, index: int) -> bytes:
        """Return the bytes of an image file.

        Raises:
            UnreadableImage: the file cannot be read.
        """

    @abstractmethod
    def path(self, index: int) -> str:
        """Return where a person finds a photo: an absolute path; in a tar, TAR/MEMBER."""

    def file(self, index: int) -> str:
        """Return the path of the file that holds a photo: its own, or a tar's."""
        return self.path(index)

    def file_id(self, index: int) -> tuple[str, str]:
        """Return the id of a photo, or the part of it that is its tar, and the path of that file."""
        file, id = self.file(index), self.items[index].id
        member = len(self.path(index)) - len(file)
        return id[: len(id) - member], file

    def image(self, index: int, size: int | None = None) -> Image.Image:
        """Return a photo in RGB, at least `size` pixels on its shorter side unless the file has fewer.

        Raises:
            UnreadableImage: it cannot be decoded; the message names its path. See `decode`.
        """
        data = self.read(index)
        try:
            return decode(data, size)
        except UnreadableImage as error:
            raise UnreadableImage(error.reason, self.path(index)) from error

    def photo(self, index: int, size: int | None = None) -> tuple[Image.Image, Facts]:
        """Return a photo as `image` does, and the facts about it.

        Raises:
            UnreadableImage: see `image`.
        """
        data = self.read(index)
        try:
            return decode_with_facts(data, size, self._side(index))
        except UnreadableImage as error:
            raise UnreadableImage(error.reason, self.path(index)) from error

    def out_of_reach(self, index: int) -> str:
        """Return why a photo's file cannot be opened now; "" if it can, or is not there."""
        place = self.place(index)
        try:
            read_file(place.file, place.offset or 0, 1)
        except OutOfReach as error:
            return error.reason
        except UnreadableImage:  # reading it will say why
            pass
        return ""

    def header(self, index: int) -> Facts:
        """Return the facts that the beginning of a photo's file tells; none if it cannot be read."""
        place = self.place(index)
        try:
            if place.offset is not None:
                return facts_of_header(io.BytesIO(read_place(place)), self._side(index))
            with open_file(place.file) as file:
                return facts_of_header(file, self._side(index))
        except (OSError, UnreadableImage):
            return Facts()

    def side(self, index: int) -> str | None:
        """Return the path of the XMP file beside a photo, if there is one."""
        return None

    def state(self, index: int, of: Callable[[str], FileState | None] = state_of) -> str:
        """Return what changes with a photo's file, its tar, or the XMP file beside it; "" cannot be known.

        Args:
            index: of the photo.
            of: returns the state of a file.
        """
        states = [of(file) for file in (self.file(index), self.side(index)) if file is not None]
        return "" if None in states else "; ".join(map(str, states))

    def _side(self, index: int) -> bytes:
        """Return the XMP file beside a photo; one that may not or cannot be read is as none."""
        path = self.side(index)
        if path is None:
            return b""
        try:
            return read_beside(path, self.real_roots)
        except UnreadableImage:
            return b""

    @cached_property
    def real_roots(self) -> list[str]:
        """The roots after links are resolved."""
        return list(map(os.path.realpath, self.roots))

    def place(self, index: int) -> Place:
        """Return where the bytes of a photo are."""
        return Place(self.file(index))

    def files(self) -> dict[str, int]:
        """Return how many files there are, by what becomes of them: photos, and LEFT."""
        return {"photos": len(self), **{fate: self.left[fate] for fate in LEFT}}

    def captioned(self) -> np.ndarray:
        """Return the indices of the photos that have captions, int64 [n], in order."""
        return np.array([index for index, item in enumerate(self.items) if item.captions], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.items)


def caption_lines(data: bytes) -> tuple[str, ...]:
    """Return the captions in a text file, one per line.

    Raises:
        ValueError: see `decode_text`.
    """
    return clean_captions(lines_of(decode_text(data)))


def clean_captions(captions: object) -> tuple[str, ...]:
    """Return the non-empty strings of a list, with single spaces; half a character becomes "?"."""
    if not isinstance(captions, list):
        return ()
    texts = (whole(caption).replace("\0", " ") for caption in captions if isinstance(caption, str))
    lines = (" ".join(text.split()) for text in texts)
    return tuple(line for line in lines if line)


def read_place(place: Place) -> bytes:
    """Return the bytes of a photo.

    Raises:
        UnreadableImage: see `read_file`.
    """
    return read_file(place.file, place.offset or 0, -1 if place.size is None else place.size)


def spread(total: int, number: int | None) -> Sequence[int]:
    """Return so many of `total` rows, evenly spread; all if `number` is None."""
    if number is None or number >= total:
        return range(total)
    return [row * total // number for row in range(number)]
