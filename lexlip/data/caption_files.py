"""Photos that a file of captions names, and further captions for the photos of a source."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from lexlip.data.captions import SUFFIXES as OF_TABLES
from lexlip.data.captions import Entry, clean_captions, read_caption_lines, read_table
from lexlip.data.files import Place, out_of_reach, path_of, reason_of
from lexlip.data.folder import NOT_UTF8, is_utf8, shown, walk
from lexlip.data.json_captions import SUFFIXES as OF_JSON
from lexlip.data.json_captions import read_json
from lexlip.data.source import Item, LazyItems, Skipped, Source, Unlisted, View
from lexlip.data.tar_shards import WebDatasetSource, match_tars
from lexlip.errors import DataError
from lexlip.words.plain_text import composed

T = TypeVar("T")

SUFFIXES = (*OF_TABLES, *OF_JSON)
"""Of files with captions that name their photos."""


def read_entries(path: Path, name: str, skipped: list[Skipped]) -> list[Entry]:
    """Return the photos of a file and their captions; DataError: see `read_table` and `read_json`."""
    read = read_json if path.suffix.lower() in OF_JSON else read_table
    return list(read(path, name, skipped))


def read_captions_alone(path: str | Path) -> list[str]:
    """Return the captions of a file, whatever its photos, or of a text with one a line; else DataError."""
    if Path(path).suffix.lower() not in (".tsv", ".csv", *OF_JSON):
        return read_caption_lines(path)
    entries = read_entries(Path(path), str(path), [])
    return [text for entry in entries for text in clean_captions(entry.captions)]


class _Photo(NamedTuple, Generic[T]):
    path: str
    place: T


class NamedPhotos(Generic[T]):
    """Photos that are there, by their paths; names are compared in Unicode's NFC.

    A name is the photo whose path ends with it, or has its longest end, at least the file name: Karpathy's
    val2014/a.jpg may lie in any tar. A folder a and a tar a.tar are the same in paths. If that may be two
    photos, or a photo may be two of all names that the file has, it is refused.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = list(dict.fromkeys(names))
        self._file_names = {_file_name(name) for name in self._names}
        self._whole: dict[str, list[_Photo[T]]] = {}  # by path
        self._ends: dict[str, list[_Photo[T]]] = {}  # by each end of a path; two are enough to be unclear

    def add(self, path: str, place: T, whole: bool = False) -> None:
        """Add a photo by its path, in a tar with the tar's name; all are added before one is looked for.

        Names must end with a `whole` path, not the other way round. `place` is what `find` is to return.
        """
        if _file_name(path) not in self._file_names:
            return
        photo, (first, *further) = _Photo(path, place), _ends(path)
        self._whole.setdefault(first, []).append(photo)
        for end in [first] if whole else [first, *further]:
            if len(photos := self._ends.setdefault(end, [])) < 2:
                photos.append(photo)

    def find(self, name: str) -> tuple[T | None, str]:
        """Return the photo of a name; or None, and why it is not clear which, or "" if there is none."""
        complete, photos = self._best(name)
        if not photos:
            return None, ""
        if len(photos) > 1:
            return None, f"it may be {photos[0].path} or {photos[1].path}: give more of its path"
        (photo,) = photos
        others = [] if complete else [other for other in self._named[photo.path] if other != name]
        if others:
            return None, f"not there, and {photo.path} may be {others[0]} as well"
        return photo.place, ""

    @cached_property
    def _named(self) -> dict[str, list[str]]:
        """Names by the path of the photo that each may be; two of a photo."""
        found: dict[str, list[str]] = {}
        for name in self._names:
            _, photos = self._best(name)
            if len(photos) == 1 and len(names := found.setdefault(photos[0].path, [])) < 2:
                names.append(name)
        return found

    def _best(self, name: str) -> tuple[bool, list[_Photo[T]]]:
        """Return whether paths end with a name, and the photos with its longest end; or with it as a path."""
        whole, *further = _ends(name)
        if photos := self._whole.get(whole) or self._ends.get(whole):
            return True, photos
        return False, next((self._ends[end] for end in further if end in self._ends), [])


def _file_name(path: str) -> str:
    return composed(path).rpartition("/")[2]


def _ends(path: str) -> list[str]:
    """Return a path and all of its ends down to the file name, with tars as folders."""
    *folders, file_name = [part for part in composed(path).split("/") if part not in ("", ".")] or [""]
    parts = [*(folder.removesuffix(".tar") for folder in folders), file_name]
    return ["/".join(parts[start:]) for start in range(len(parts))]


NAMED = 10  # missing photos that are named one by one; if there are more, they belong to another split


class CaptionedSource(Source):
    """The photos that a file with captions names, in its order.

    The id of a photo is its path as the file has it; entries of one photo are put together. `images` is a
    folder of photos or of tars, a tar, or a pattern of tars; see `NamedPhotos` for how a photo is found that
    is not where its path says. Missing photos are skipped; many of them are reported in one line. DataError:
    there is no such split, or none of the photos.
    """

    def __init__(
        self,
        name: str,
        entries: Iterable[Entry],
        images: Path,
        split: str | None,
        skipped: Iterable[Skipped] = (),
    ) -> None:
        self.name = name
        self.skipped = list(skipped)
        captions: dict[str, list[str]] = {}
        entries = list(entries)
        for entry in _of_split(entries, split, name):
            captions.setdefault(entry.photo, []).extend(entry.captions)
        names = (entry.photo for entry in entries if is_utf8(entry.photo))
        places, unclear = self._find(list(filter(is_utf8, captions)), names, images)
        self.items = [Item(photo, clean_captions(captions[photo])) for photo in places]
        self._places = list(places.values())
        of_tars = self._tars.roots if self._tars is not None else []
        self.roots = list(dict.fromkeys([str(images.absolute()), *of_tars] if images.is_dir() else of_tars))
        told = places.keys() | unclear.keys()
        missing = [photo for photo in captions if photo not in told and is_utf8(photo)]
        self._skip(dict.fromkeys(missing, "no such file"), len(captions), f"are not in {images}")
        self._skip(unclear, len(captions), "may be several")
        self.skipped += [Skipped(shown(id), NOT_UTF8) for id in captions if not is_utf8(id)]
        self.unlisted = [Unlisted(photo, why, 1) for photo in missing if (why := self._why_missing(photo))]
        if not captions:
            raise no_photos(name)
        if not self.items:
            first = next(iter(captions))
            example = f"{first}: {unclear[first]}" if first in unclear else first
            of = f"none of the {len(captions)} photos that {name} names is in {images}"
            raise DataError(f"{of} (the first is {example})")

    def _skip(self, photos: dict[str, str], total: int, what: str) -> None:
        """Name photos that are left out, each with its reason; many of them in one line."""
        if len(photos) <= NAMED:
            self.skipped += [Skipped(photo, why) for photo, why in photos.items()]
        else:
            photo, why = next(iter(photos.items()))
            example = photo if why == "no such file" else f"{photo} ({why})"
            line = f"{len(photos)} of its {total} photos {what}, such as {example}"
            self.skipped.append(Skipped(self.name, line))

    def _why_missing(self, photo: str) -> str:
        """Return what may hide a photo that was not found; "" if it is not there."""
        hidden = [*self._hidden, *(self._tars.unlisted if self._tars is not None else ())]
        where = f"{hidden[0].id or 'the folder'}: {hidden[0].reason}" if hidden else ""
        return self._away.get(photo, where)

    def _find(
        self, photos: list[str], names: Iterable[str], images: Path
    ) -> tuple[dict[str, str | int], dict[str, str]]:
        """Return where each photo is, its file or its index in `self._tars`, and why that is unclear."""
        self._tars: WebDatasetSource | None = None
        self._hidden: list[Unlisted] = []
        self._away: dict[str, str] = {}
        files: dict[str, str | int] = {}
        there = NamedPhotos[str | int](names)
        if not images.is_dir():
            tars = [images] if images.is_file() else match_tars(str(images))
            self._tars = WebDatasetSource(tars, str(images))
        else:
            root = images.absolute()
            files.update((photo, path) for photo in photos if (path := self._file(f"{root / photo}", photo)))
            if len(files) == len(photos):
                return files, {}
            listing = walk(root)
            self._hidden = listing.unlisted
            for path in listing.photos:
                there.add(path, f"{root}/{path}", whole=True)
            if listing.tars:  # those without photos serve another purpose
                tars = [root / tar for tar in listing.tars]
                self._tars = WebDatasetSource(tars, str(images), may_be_empty=True)
        if self._tars is not None:
            self.skipped += [skip for skip in self._tars.skipped if skip.id.endswith(".tar")]
            for index, item in enumerate(self._tars.items):
                there.add(item.id, index)
        found = {photo: (files[photo], "") if photo in files else there.find(photo) for photo in photos}
        places = {photo: place for photo, (place, _) in found.items() if place is not None}
        return places, {photo: why for photo, (_, why) in found.items() if why}

    def _file(self, path: str, photo: str) -> str | None:
        """Return the path of a photo's file, if it is there; note if that cannot be told."""
        try:
            if stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 (a Path per file is slow)
                return path
        except ValueError:  # no path can hold this
            return None
        except OSError as error:
            if out_of_reach(error):
                self._away[photo] = reason_of(error)
        return None

    def _in_tars(self) -> WebDatasetSource:
        assert self._tars is not None
        return self._tars

    def path(self, index: int) -> str:
        place = self._places[index]
        return place if isinstance(place, str) else self._in_tars().path(place)

    def place(self, index: int) -> Place:
        place = self._places[index]
        return Place(place) if isinstance(place, str) else self._in_tars().place(place)


def _of_split(entries: list[Entry], split: str | None, name: str) -> list[Entry]:
    if split is None:
        return entries
    chosen = [entry for entry in entries if entry.split == split]
    if not chosen:
        splits = ", ".join(sorted({entry.split for entry in entries} - {""})) or "no splits"
        raise DataError(f"{name} has no split {split!r}: it has {splits}")
    return chosen


def no_photos(name: str) -> DataError:
    """Return the error for a file of captions without any."""
    return DataError(f"{name} names no photos: each needs a file name and a caption")


class FurtherTexts(View):
    """The photos of a source, with further captions from tables after their own, table by table; and words.

    How a table names a photo, `NamedPhotos` says. Photos that only a table names, or that it does not name
    clearly, are left out, and counted in `skipped`. DataError: a table cannot be read, or names none of the
    photos.
    """

    def __init__(self, source: Source, captions: Sequence[str], words: Sequence[str] = ()) -> None:
        self.name, self.source = source.name, source
        self.roots, self.skipped, self.unlisted = source.roots, list(source.skipped), source.unlisted
        self.items = self._photos = LazyItems([_Further(source, *map(self._texts, (captions, words)))], [""])

    def _texts(self, tables: Sequence[str]) -> dict[int, tuple[str, ...]]:
        """Return the texts of tables, by the index of their photo."""
        more: dict[int, list[str]] = {}
        for table in tables:
            self._add(table, more)
        return {row: clean_captions(texts) for row, texts in more.items()}

    def _add(self, table: str, more: dict[int, list[str]]) -> None:
        path = path_of(table)
        if path.suffix.lower() not in SUFFIXES:
            raise DataError(f"{table} is no table of captions: its name must end in {', '.join(SUFFIXES)}")
        entries = read_entries(path, table, self.skipped)
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

    def origin(self, index: int) -> tuple[Source, int]:
        return self.source, index

    def captioned(self) -> np.ndarray:
        return self._photos.captioned()


class _Further:
    """The items of a source, with further captions and words, by index, after their own."""

    def __init__(
        self, source: Source, more: dict[int, tuple[str, ...]], words: dict[int, tuple[str, ...]]
    ) -> None:
        self._source, self._more, self._words = source, more, words

    def __len__(self) -> int:
        return len(self._source)

    def item(self, index: int, prefix: str) -> Item:
        item = self._source.item(index, prefix)
        more, words = self._more.get(index, ()), self._words.get(index, ())
        return Item(item.id, item.captions + more, item.words + words)

    def captioned(self) -> np.ndarray:
        more = [index for index, captions in self._more.items() if captions]
        return np.union1d(self._source.captioned(), np.array(more, dtype=np.int64))
