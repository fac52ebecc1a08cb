"""Further captions of a source's photos, such as translations, from tables beside it."""

import posixpath
from collections.abc import Sequence

import numpy as np
from PIL import Image

from lexlip.data.caption_files import no_photos
from lexlip.data.caption_table import SUFFIXES, read_entries
from lexlip.data.facts import Facts
from lexlip.data.files import path_of
from lexlip.data.lazy_items import LazyItems
from lexlip.data.source import Item, Place, Skipped, Source, clean_captions
from lexlip.errors import DataError


class FurtherCaptions(Source):
    """The photos of a source, with further captions from tables after their own, table by table.

    A table names a photo by its file name; folders and tars do not matter. Photos that only a table names
    are left out, and counted in `skipped`.

    Args:
        source: the photos.
        tables: paths of the tables.

    Raises:
        DataError: a table cannot be read or names none of the photos, or two photos have the same file
            name.
    """

    def __init__(self, source: Source, tables: Sequence[str]) -> None:
        self.name, self.source = source.name, source
        self.roots, self.skipped, self.unlisted = source.roots, list(source.skipped), source.unlisted
        rows: dict[str, int] = {}
        for row, item in enumerate(source.items):
            if rows.setdefault(posixpath.basename(item.id), row) != row:
                other = source.items[rows[posixpath.basename(item.id)]].id
                raise DataError(
                    f"{source.name} has two photos of one file name, {other} and {item.id}:"
                    " further captions go by file names"
                )
        more: dict[int, list[str]] = {}
        for table in tables:
            self._add(table, rows, more)
        self.items = self._items = _Items(source, {row: clean_captions(texts) for row, texts in more.items()})

    def _add(self, table: str, rows: dict[str, int], more: dict[int, list[str]]) -> None:
        path = path_of(table)
        if path.suffix.lower() not in SUFFIXES:
            raise DataError(f"{table} is no table of captions: its name must end in {', '.join(SUFFIXES)}")
        names, found = set(), set()
        for entry in read_entries(path, table, self.skipped):
            name = posixpath.basename(entry.photo)
            names.add(name)
            if name in rows:
                found.add(name)
                more.setdefault(rows[name], []).extend(entry.captions)
        if not names:
            raise no_photos(table)
        if not found:
            example = f" (the first is {next(iter(names))})"
            raise DataError(f"none of the {len(names)} photos that {table} names is in {self.name}{example}")
        if len(found) < len(names):
            why = f"{len(names) - len(found)} of its {len(names)} photos are not in {self.name}"
            self.skipped.append(Skipped(table, why))

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
