"""Several sources, one after another."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

import numpy as np
from PIL import Image

from lexlip.data.facts import Facts
from lexlip.data.lazy_items import LazyItems
from lexlip.data.source import Item, Place, Skipped, Source, Unlisted


class Concat(Source):
    """The photos of several sources; nothing is copied.

    The id of a photo starts with the name of its source, and with a number if two sources have the same
    name.

    Args:
        sources: in order.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self.name = " ".join(source.name for source in sources)
        self.sources = list(sources)
        self.roots = list(dict.fromkeys(root for source in sources for root in source.roots))
        prefixes = _prefixes(self.sources)
        self._photos = _ConcatItems(prefixes, self.sources)
        self.items = self._photos
        self.skipped = [
            Skipped(prefix + skip.id, skip.reason)
            for prefix, source in zip(prefixes, sources, strict=True)
            for skip in source.skipped
        ]
        self.left = sum((source.left for source in sources), Counter())
        self.unlisted = [
            Unlisted((prefix + place.id).rstrip("/"), place.reason, place.photos)
            for prefix, source in zip(prefixes, sources, strict=True)
            for place in source.unlisted
        ]

    def read(self, index: int) -> bytes:
        number, index = self._photos.locate(index)
        return self.sources[number].read(index)

    def path(self, index: int) -> str:
        number, index = self._photos.locate(index)
        return self.sources[number].path(index)

    def file(self, index: int) -> str:
        number, index = self._photos.locate(index)
        return self.sources[number].file(index)

    def place(self, index: int) -> Place:
        number, index = self._photos.locate(index)
        return self.sources[number].place(index)

    def side(self, index: int) -> str | None:
        number, index = self._photos.locate(index)
        return self.sources[number].side(index)

    def photo(self, index: int, size: int | None = None) -> tuple[Image.Image, Facts]:
        number, index = self._photos.locate(index)
        return self.sources[number].photo(index, size)

    def image(self, index: int, size: int | None = None) -> Image.Image:
        number, index = self._photos.locate(index)
        return self.sources[number].image(index, size)

    def captioned(self) -> np.ndarray:
        return self._photos.captioned()


class _ConcatItems(LazyItems):
    """The items of several sources, with each source's prefix before their ids."""

    def __init__(self, prefixes: Sequence[str], sources: Sequence[Source]) -> None:
        super().__init__([len(source) for source in sources])
        self._prefixes, self._sources = prefixes, sources

    def _item(self, part: int, index: int) -> Item:
        item = self._sources[part].items[index]
        return Item(self._prefixes[part] + item.id, item.captions)

    def _captioned(self, part: int) -> np.ndarray:
        return self._sources[part].captioned()


def _prefixes(sources: list[Source]) -> list[str]:
    names = [PurePath(os.path.abspath(source.name)).name or source.name for source in sources]  # noqa: PTH100
    if len(set(names)) < len(names):
        names = [f"{number}-{name}" for number, name in enumerate(names, start=1)]
    return [f"{name}/" for name in names]
