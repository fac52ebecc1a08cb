"""Several sources, one after another."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import PurePath

from PIL import Image

from lexlip.data.source import Item, Skipped, Source


class JoinedSource(Source):
    """The photos of several sources. Their ids stay as they are if no two are alike; otherwise each has
    the name of its source before it, numbered if the names are alike too."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.name = " ".join(source.name for source in sources)
        self.sources = list(sources)
        self._starts = [0, *accumulate(len(source) for source in sources)]
        prefixes = _prefixes(self.sources)
        self.items = [
            Item(prefix + item.id, item.captions)
            for prefix, source in zip(prefixes, sources, strict=True)
            for item in source.items
        ]
        self.skipped = [
            Skipped(prefix + skip.id, skip.reason)
            for prefix, source in zip(prefixes, sources, strict=True)
            for skip in source.skipped
        ]

    def read(self, index: int) -> bytes:
        source, index = self._locate(index)
        return source.read(index)

    def path(self, index: int) -> str:
        source, index = self._locate(index)
        return source.path(index)

    def image(self, index: int, size: int | None = None) -> Image.Image:
        source, index = self._locate(index)
        return source.image(index, size)

    def _locate(self, index: int) -> tuple[Source, int]:
        index = range(len(self))[index]
        number = bisect_right(self._starts, index) - 1
        return self.sources[number], index - self._starts[number]


def _prefixes(sources: list[Source]) -> list[str]:
    if len({item.id for source in sources for item in source.items}) == sum(map(len, sources)):
        return [""] * len(sources)
    names = [PurePath(source.name).name for source in sources]
    if len(set(names)) < len(names):
        names = [f"{number}-{name}" for number, name in enumerate(names, start=1)]
    return [f"{name}/" for name in names]
