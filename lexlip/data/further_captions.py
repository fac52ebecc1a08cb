"""Further captions of a source's photos, such as translations, from tables beside it."""

from collections.abc import Sequence

import numpy as np
from PIL import Image

from lexlip.data.caption_files import no_photos
from lexlip.data.caption_table import SUFFIXES, read_entries
from lexlip.data.facts import Facts
from lexlip.data.files import path_of
from lexlip.data.lazy_items import LazyItems
from lexlip.data.named_photos import NamedPhotos
from lexlip.data.source import Item, Place, Skipped, Source, clean_captions
from lexlip.errors import DataError


class FurtherCaptions(Source):
    """The photos of a source, with further captions from tables after their own, table by table.

    How a table names a photo, `NamedPhotos` says. Photos that only a table names, or that it does not name
    clearly, are left out, and counted in `skipped`.

    Args:
        source: the photos.
        tables: paths of the tables.

    Raises:
        DataError: a table cannot be read, or names none of the photos.
    """

    def __init__(self, source: Source, tables: Sequence[str]) -> None:
        self.name, self.source = source.name, source
        self.roots, self.skipped, self.unlisted = source.roots, list(source.skipped), source.unlisted
        more: dict[int, list[str]] = {}
        for table in tables:
            self._add(table, more)
        self.items = self._items = _Items(source, {row: clean_captions(texts) for row, texts in more.items()})

    def _add(self, table: str, more: dict[int, list[str]]) -> None:
        path = path_of(table)
        if path.suffix.lower() not in SUFFIXES:
            raise DataError(f"{table} is no table of captions: its name must end in {', '.join(SUFFIXES)}")
        entries = list(read_entries(path, table, self.skipped))
        photos = NamedPhotos[int](entry.photo for entry in entries)
        for row, item in enumerate(self.source.items):
            photos.add(item.id, row)
        found = {entry.photo: photos.find(entry.photo) for entry in entries}
        for entry in entries:
            place, _ = found[entry.photo]
            if place is not None:
                more.setdefault(place, []).extend(entry.captions)
        if not found:
            raise no_photos(table)
        lost = {name: why for name, (place, why) in found.items() if place is None}
        unclear = next((f"{name}: {why}" for name, why in lost.items() if why), "")
        if len(lost) == len(found):
            of = f"none of the {len(found)} photos that {table} names is in {self.name}"
            raise DataError(f"{of} (the first is {unclear or next(iter(found))})")
        if lost:
            why = f"{len(lost)} of its {len(found)} photos are not in {self.name}"
            self.skipped.append(Skipped(table, f"{why}, or not clear ({unclear})" if unclear else why))

    def read(self, index: int) -> bytes:
        return self.source.read(index)

    def path(self, index: int) -> str:
        return self.source.path(index)

    def file(self, index: int) -> str:
        return self.source.file(index)

    def place(self, index: int) -> Place:
        return self.source.place(index)

    def side(self, index: int) -> str | None:
        return self.source.side(index)

    def photo(self, index: int, size: int | None = None) -> tuple[Image.Image, Facts]:
        return self.source.photo(index, size)

    def image(self, index: int, size: int | None = None) -> Image.Image:
        return self.source.image(index, size)

    def captioned(self) -> np.ndarray:
        return self._items.captioned()


class _Items(LazyItems):
    """The items of a source, with further captions, by index, after their own."""

    def __init__(self, source: Source, more: dict[int, tuple[str, ...]]) -> None:
        super().__init__([len(source)])
        self._source, self._more = source, more

    def _item(self, part: int, index: int) -> Item:
        item = self._source.items[index]
        return Item(item.id, item.captions + self._more.get(index, ()))

    def _captioned(self, part: int) -> np.ndarray:
        more = [index for index, captions in self._more.items() if captions]
        return np.union1d(self._source.captioned(), np.array(more, dtype=np.int64))
