"""Views of other sources, of which nothing is copied: some of their photos, or those of several together."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

import numpy as np
from PIL import Image

from lexlip.data.facts import Facts
from lexlip.data.files import Place
from lexlip.data.source import LazyItems, Skipped, Source, Unlisted


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

    def file(self, index: int) -> str:
        source, index = self.origin(index)
        return source.file(index)

    def place(self, index: int) -> Place:
        source, index = self.origin(index)
        return source.place(index)

    def side(self, index: int) -> str | None:
        source, index = self.origin(index)
        return source.side(index)

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
    """The photos of several sources, one source after another.

    The id of a photo starts with the name of its source, and with a number if two sources have the same
    name.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self.name = " ".join(source.name for source in sources)
        self.sources = list(sources)
        self.roots = list(dict.fromkeys(root for source in sources for root in source.roots))
        prefixes = _prefixes(self.sources)
        self.items = self._photos = LazyItems(self.sources, prefixes)
        named = list(zip(prefixes, sources, strict=True))
        self.skipped = [
            Skipped(prefix + skip.id, skip.reason) for prefix, source in named for skip in source.skipped
        ]
        self.left = sum((source.left for source in sources), Counter())
        self.unlisted = [
            Unlisted((prefix + place.id).rstrip("/"), place.reason, place.photos)
            for prefix, source in named
            for place in source.unlisted
        ]

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
