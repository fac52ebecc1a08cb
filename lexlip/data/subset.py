"""Some of the photos of a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PIL import Image

from lexlip.data.facts import Facts
from lexlip.data.source import Place, Source


class Subset(Source):
    """Photos of another source, in a given order; nothing is copied.

    Args:
        source: the photos.
        indices: of the photos to take, in the order that they then have.
        captions: keep only the first so many captions of each photo; None keeps all.
    """

    def __init__(self, source: Source, indices: Sequence[int], captions: int | None = None) -> None:
        self.name, self.skipped, self.roots = source.name, source.skipped, source.roots
        self.unlisted, self.left = source.unlisted, source.left
        self.source, self.indices = source, list(indices)
        items = [source.items[index] for index in self.indices]
        self.items = [replace(item, captions=item.captions[:captions]) for item in items]

    def read(self, index: int) -> bytes:
        return self.source.read(self.indices[index])

    def path(self, index: int) -> str:
        return self.source.path(self.indices[index])

    def file(self, index: int) -> str:
        return self.source.file(self.indices[index])

    def place(self, index: int) -> Place:
        return self.source.place(self.indices[index])

    def side(self, index: int) -> str | None:
        return self.source.side(self.indices[index])

    def photo(self, index: int, size: int | None = None) -> tuple[Image.Image, Facts]:
        return self.source.photo(self.indices[index], size)

    def image(self, index: int, size: int | None = None) -> Image.Image:
        return self.source.image(self.indices[index], size)
