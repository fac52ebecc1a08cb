"""What every source of photos offers; and views of other sources: some of their photos, or all together."""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import PurePath, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple, Protocol, overload

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lexlip.data.extra_kinds import lacks_package
from lexlip.data.facts import Facts, Side, decode_with_facts, facts_of_header, read_side
from lexlip.data.files import (
    LARGEST_CAPTIONS,
    FileState,
    OutOfReach,
    Place,
    open_file,
    read_beside,
    read_file,
    read_place,
    state_of,
)
from lexlip.data.images import decode
from lexlip.errors import DataError, UnreadableImage

if TYPE_CHECKING:
    from lexlip.config import RegionsConfig

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
    """One photo: an id that is unique within its source, and its captions (there may be none).

    `words` are texts, such as tags, that name what is in the photo, and that nobody would search with.
    """

    id: str
    captions: tuple[str, ...]
    words: tuple[str, ...] = ()


class Skipped(NamedTuple):
    """Something that was found unusable while listing, or beside a photo that was read."""

    id: str
    reason: str


class Unreadable(NamedTuple):
    """A photo that cannot be used: its file's size, when that was last written (in ns), and why."""

    size: int
    written: int
    reason: str


class Unlisted(NamedTuple):
    """A place of a source that could not be listed, why, and how many photos it holds; None is unknown.

    Ids of its photos are its id, or begin with it and a slash; "" is the whole source.
    """

    id: str
    reason: str
    photos: int | None = None


@dataclass(frozen=True)
class Given:
    """What a user names as the photos of an index; see `lexlip.data.open.open_source`.

    With several sources, an id begins with the name of its source. Patterns of `exclude`, as in a .gitignore,
    are of paths below each source, and so are those of `include`, of what would be left out without them.
    """

    sources: tuple[str, ...]
    images: str | None = None
    split: str | None = None
    exclude: tuple[str, ...] = ()
    include: tuple[str, ...] = ()


def no_captions(name: str, which: str = "") -> DataError:
    """Return the error for a source whose photos, or those " that can be read", lack needed captions."""
    way_on = "give photos with captions, in a .txt beside each or in a table"
    return DataError(f"no photo of {name}{which} has a caption: {way_on}")


class Source(ABC):
    """Photos with captions, listed at once and read one by one.

    A source holds no open files: it can be pickled, and used in forked and spawned workers. `name` is what
    the user gave, and `given` what `open_library` was given. `items` are in a fixed order; large sources make
    each one on demand. `skipped` was found unusable (`Skipped`); `unlisted` are places that could not be
    listed, which `skipped` names too. `roots` are the folders that paths of its photos begin with, if any;
    `left` is how many files of a folder are no photos, by what becomes of them, see LEFT.
    """

    name: str
    items: Sequence[Item]
    skipped: list[Skipped]
    unlisted: Sequence[Unlisted] = ()
    roots: Sequence[str] = ()
    given: Given | None = None
    left: Counter[str] = Counter()  # noqa: RUF012 (nobody changes it)

    @abstractmethod
    def path(self, index: int) -> str:
        """Return where a person finds a photo: an absolute path; in a tar, TAR/MEMBER."""

    def place(self, index: int) -> Place:
        return Place(self.path(index))

    def file(self, index: int) -> str:
        """Return the path of the file that holds a photo: its own, or a tar's."""
        return self.place(index).file

    def read(self, index: int) -> bytes:
        """Return the bytes of an image file; UnreadableImage: it cannot be read."""
        with self._naming(index):
            return read_place(self.place(index))

    @contextmanager
    def _naming(self, index: int) -> Iterator[None]:
        """Name the photo in the error if a `with` block cannot read it."""
        try:
            yield
        except UnreadableImage as error:
            raise type(error)(error.reason, self.path(index)) from error

    def _check_package(self, index: int) -> None:
        """Raise OutOfReach before a photo's file is read in vain, which may be large."""
        if why := lacks_package(self.path(index)):
            raise OutOfReach(why)

    def file_id(self, index: int) -> tuple[str, str]:
        """Return the id of a photo, or the part of it that is its tar, and the path of that file."""
        file, id = self.file(index), self.items[index].id
        member = len(self.path(index)) - len(file)
        return id[: len(id) - member], file

    def image(self, index: int, size: int | None = None) -> Image.Image:
        """Return a photo in RGB, as `decode` does; UnreadableImage: it cannot be decoded."""
        with self._naming(index):
            self._check_package(index)
            return decode(self.read(index), size)

    def regions(self, index: int, wanted: RegionsConfig) -> NDArray[np.float32]:
        """Return what a detector found in a photo, see `lexlip.data.region_files.WithRegions`; DataError."""
        raise DataError(
            f"the model takes a detector's regions, and it is not said where those of {self.name} are: give"
            " --regions, or in a config regions beside the path of the photos"
        )

    def photo(self, index: int, size: int | None = None) -> tuple[Image.Image, Facts]:
        with self._naming(index):
            self._check_package(index)
            return decode_with_facts(self.read(index), size, self._read_sides(index))

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
                return facts_of_header(io.BytesIO(read_place(place)), self._read_sides(index))
            with open_file(place.file) as file:
                return facts_of_header(file, self._read_sides(index))
        except (OSError, UnreadableImage):
            return Facts()

    def sides(self, index: int) -> Sequence[str]:
        """Return the XMP files beside a photo, that of its whole name first; then JSON, maybe of Takeout."""
        return ()

    def same(self, index: int) -> Sequence[str]:
        """Return the names of files that are the same photo, and so not listed."""
        return ()

    def state(self, index: int, of: Callable[[str], FileState | None] = state_of) -> str:
        """Return what changes with a photo's file, its tar, or one of its `sides`; "" cannot be known."""
        states = [of(file) for file in (self.file(index), *self.sides(index))]
        return "" if None in states else "; ".join(map(str, states))

    def _read_sides(self, index: int) -> list[Side]:
        """Return what files beside a photo say, without those that may not or cannot be read: `skipped`.

        JSON that is not Google Takeout's, or is larger than that gets, has nothing to do with the photo.
        """
        read = []
        for path in self.sides(index):
            is_json = path.lower().endswith(".json")
            state = state_of(path) if is_json else None
            if state is not None and state.size > LARGEST_CAPTIONS:
                continue
            try:
                side = read_side(read_beside(path, self.real_roots), is_json)
                if side is not None and (side.title is None or self._is_titled(index, path, side.title)):
                    read.append(side)
            except UnreadableImage as error:
                self._skip_beside(index, path, error.reason)
            except ValueError as error:
                self._skip_beside(index, path, str(error))
        return read

    def _is_titled(self, index: int, path: str, title: str) -> bool:
        """Return whether JSON of Google Takeout is of the photo that it stands beside, by its title."""
        return True

    def check_place(self, index: int, facts: Facts) -> None:
        """Name a photo in `misplaced` whose place cannot be."""
        if facts.misplaced:
            self.misplaced.append(self.items[index].id)

    @cached_property
    def misplaced(self) -> list[str]:
        """Photos whose GPS tells a place that cannot be, of those that were given to `check_place`."""
        return []

    def _skip_beside(self, index: int, path: str, reason: str) -> None:
        """Add a file beside a photo to `skipped`, once."""
        if path not in self._broken:
            self._broken.add(path)
            name = PurePosixPath(self.items[index].id).with_name(PurePath(path).name)
            self.skipped.append(Skipped(str(name), reason))

    @cached_property
    def _broken(self) -> set[str]:
        """The files beside photos that `skipped` names."""
        return set()

    @cached_property
    def real_roots(self) -> list[str]:
        return list(map(os.path.realpath, self.roots))

    def files(self) -> dict[str, int]:
        """Return how many files there are, by what becomes of them: photos, and LEFT."""
        return {"photos": len(self), **{fate: self.left[fate] for fate in LEFT}}

    def item(self, index: int, prefix: str = "") -> Item:
        item = self.items[index]
        return replace(item, id=prefix + item.id)

    def captioned(self) -> np.ndarray:
        """Return the indices of the photos that have captions, int64 [n], in order."""
        return np.array([index for index, item in enumerate(self.items) if item.captions], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.items)


def spread(total: int, number: int | None) -> Sequence[int]:
    """Return so many of `total` rows, evenly spread; all if `number` is None."""
    if number is None or number >= total:
        return range(total)
    return [row * total // number for row in range(number)]


class Part(Protocol):
    """What makes items on demand, such as a source."""

    def __len__(self) -> int: ...

    def item(self, index: int, prefix: str) -> Item:
        """Return an item, with a prefix before its id."""

    def captioned(self) -> np.ndarray:
        """Return the indices of the items with captions, int64 [n]."""


class LazyItems(Sequence[Item]):
    """Items of several parts, each with a prefix for ids: made on demand, as there are too many to keep."""

    def __init__(self, parts: Sequence[Part], prefixes: Sequence[str]) -> None:
        self._parts, self._prefixes = parts, prefixes
        self._starts = [0, *accumulate(map(len, parts))]

    def locate(self, index: int) -> tuple[int, int]:
        """Return the number of the part that an item is in, and its index there, or raise IndexError."""
        index = range(len(self))[index]
        part = bisect_right(self._starts, index) - 1
        return part, index - self._starts[part]

    def captioned(self) -> np.ndarray:
        parts = [start + part.captioned() for start, part in zip(self._starts, self._parts, strict=False)]
        return np.concatenate([np.empty(0, dtype=np.int64), *parts])

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, index: int) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...

    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        part, within = self.locate(index)
        return self._parts[part].item(within, self._prefixes[part])

    def __iter__(self) -> Iterator[Item]:
        for part, prefix in zip(self._parts, self._prefixes, strict=True):
            for index in range(len(part)):
                yield part.item(index, prefix)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]


# ---- views of other sources ----


class View(Source):
    """Photos that other sources read."""

    @abstractmethod
    def origin(self, index: int) -> tuple[Source, int]:
        """Return the source of a photo, and the photo's index there."""

    def read(self, index: int) -> bytes:
        source, index = self.origin(index)
        return source.read(index)

    def path(self, index: int) -> str:
        source, index = self.origin(index)
        return source.path(index)

    def place(self, index: int) -> Place:
        source, index = self.origin(index)
        return source.place(index)

    def sides(self, index: int) -> Sequence[str]:
        source, index = self.origin(index)
        return source.sides(index)

    def _read_sides(self, index: int) -> list[Side]:
        source, index = self.origin(index)
        return source._read_sides(index)

    def same(self, index: int) -> Sequence[str]:
        source, index = self.origin(index)
        return source.same(index)

    def regions(self, index: int, wanted: RegionsConfig) -> NDArray[np.float32]:
        source, index = self.origin(index)
        return source.regions(index, wanted)

    def photo(self, index: int, size: int | None = None) -> tuple[Image.Image, Facts]:
        source, index = self.origin(index)
        return source.photo(index, size)

    def image(self, index: int, size: int | None = None) -> Image.Image:
        source, index = self.origin(index)
        return source.image(index, size)


class Subset(View):
    """Photos of another source, in the order of their indices; each with its first captions, or with all."""

    def __init__(self, source: Source, indices: Sequence[int], captions: int | None = None) -> None:
        self.name, self.skipped, self.roots = source.name, source.skipped, source.roots
        self.unlisted, self.left = source.unlisted, source.left
        self.source, self.indices = source, list(indices)
        items = [source.items[index] for index in self.indices]
        self.items = [replace(item, captions=item.captions[:captions]) for item in items]

    def origin(self, index: int) -> tuple[Source, int]:
        return self.source, self.indices[index]


class Concat(View):
    """The photos of several sources; ids begin with the name, or number and name, of a photo's source.

    What is `noted` of all of them is in `skipped`, too.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self.noted: list[Skipped] = []
        self.name = " ".join(source.name for source in sources)
        self.sources = list(sources)
        self.roots = list(dict.fromkeys(root for source in sources for root in source.roots))
        prefixes = _prefixes(self.sources)
        self.items = self._photos = LazyItems(self.sources, prefixes)
        self._named = list(zip(prefixes, sources, strict=True))
        self.left = sum((source.left for source in sources), Counter())
        self.unlisted = [
            Unlisted((prefix + place.id).rstrip("/"), place.reason, place.photos)
            for prefix, source in self._named
            for place in source.unlisted
        ]

    @property
    def skipped(self) -> list[Skipped]:  # type: ignore[override]  # sources find more while they are read
        of_sources = (
            Skipped(prefix + skip.id, skip.reason)
            for prefix, source in self._named
            for skip in source.skipped
        )
        return [*self.noted, *of_sources]

    def origin(self, index: int) -> tuple[Source, int]:
        number, index = self._photos.locate(index)
        return self.sources[number], index

    def captioned(self) -> np.ndarray:
        return self._photos.captioned()


def _prefixes(sources: list[Source]) -> list[str]:
    names = [PurePath(os.path.abspath(source.name)).name or source.name for source in sources]  # noqa: PTH100
    if len(set(names)) < len(names):
        names = [f"{number}-{name}" for number, name in enumerate(names, start=1)]
    return [f"{name}/" for name in names]
