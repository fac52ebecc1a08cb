"""Photos that a file with captions names: what Karpathy's JSON and tables have in common."""

import os
import posixpath
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from lexlip.data.files import LARGEST_TABLE, out_of_reach, read_file, reason_of
from lexlip.data.folder import NOT_UTF8, is_utf8, shown, walk
from lexlip.data.images import UnreadableImage
from lexlip.data.source import Item, Place, Skipped, Source, Unlisted, clean_captions
from lexlip.data.texts import decode_text
from lexlip.data.webdataset import WebDatasetSource, match_tars
from lexlip.errors import DataError

NAMED = 10  # missing photos that are named one by one; if there are more, they belong to another split


class Entry(NamedTuple):
    """Some captions of one photo, as the file has them.

    Attributes:
        photo: its path below the folder of images.
        captions: the captions.
        split: the split that it belongs to, if the file says so.
    """

    photo: str
    captions: list[str]
    split: str = ""


class CaptionedSource(Source):
    """The photos that a file with captions names, in its order.

    The id of a photo is its path as the file has it. Missing photos are skipped; many of them are reported
    in one line.

    Args:
        name: what the user gave.
        entries: of the file; those of one photo are put together.
        images: a folder of photos or of tars, a tar, or a pattern of tars. In a tar a photo is found by its
            file name alone.
        split: the one to take; None takes all.
        skipped: what was found unusable in the file.

    Raises:
        DataError: there is no such split, or none of the photos.
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
        for entry in _of_split(list(entries), split, name):
            captions.setdefault(entry.photo, []).extend(entry.captions)
        places = self._find(captions, images)
        self.items = [Item(photo, clean_captions(captions[photo])) for photo in places]
        self._places = list(places.values())
        of_tars = self._tars.roots if self._tars is not None else []
        self.roots = list(dict.fromkeys([str(images.absolute()), *of_tars] if images.is_dir() else of_tars))
        missing = [photo for photo in captions if photo not in places and is_utf8(photo)]
        if len(missing) > NAMED:
            why = f"{len(missing)} of its {len(captions)} photos are not in {images}, such as {missing[0]}"
            self.skipped.append(Skipped(name, why))
        else:
            self.skipped += [Skipped(photo, "no such file") for photo in missing]
        self.skipped += [Skipped(shown(id), NOT_UTF8) for id in captions if not is_utf8(id)]
        self.unlisted = [Unlisted(photo, why, 1) for photo in missing if (why := self._why_missing(photo))]
        if not captions:
            raise no_photos(name)
        if not self.items:
            example = f" (the first is {next(iter(captions))})"
            raise DataError(f"none of the {len(captions)} photos that {name} names is in {images}{example}")

    def _why_missing(self, photo: str) -> str:
        """Return what may hide a photo that was not found; "" if it is not there."""
        hidden = [*self._hidden, *(self._tars.unlisted if self._tars is not None else ())]
        where = f"{hidden[0].id or 'the folder'}: {hidden[0].reason}" if hidden else ""
        return self._away.get(photo, where)

    def _find(self, named: Iterable[str], images: Path) -> dict[str, str | int]:
        """Return where each photo is: the path of a file, or its index in `self._tars`."""
        self._tars: WebDatasetSource | None = None
        self._hidden: list[Unlisted] = []
        self._away: dict[str, str] = {}
        photos = list(filter(is_utf8, named))
        if not images.is_dir():
            tars = [images] if images.is_file() else match_tars(str(images))
            self._tars = WebDatasetSource(tars, str(images))
            return self._find_in_tars(photos)
        root = images.absolute()
        files: dict[str, str | int] = {}
        for photo in photos:
            if path := self._file(root, photo):
                files[photo] = path
        if len(files) == len(photos):
            return files
        listing = walk(root)
        self._hidden = listing.unlisted
        shards = [root / tar for tar in listing.tars]
        if shards:  # tars without photos serve another purpose
            self._tars = WebDatasetSource(shards, str(images), may_be_empty=True)
        members = self._find_in_tars(photos)
        everywhere = members | files
        return {photo: everywhere[photo] for photo in photos if photo in everywhere}

    def _file(self, root: Path, photo: str) -> str | None:
        """Return the path of a photo below a folder, if it is there; note if that cannot be told."""
        for path in (f"{root / photo}", f"{root / posixpath.basename(photo)}"):
            try:
                if stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 (a Path per file is slow)
                    return path
            except ValueError:  # no path can hold this
                return None
            except OSError as error:
                if out_of_reach(error):
                    self._away[photo] = reason_of(error)
        return None

    def _find_in_tars(self, photos: Iterable[str]) -> dict[str, str | int]:
        if self._tars is None:
            return {}
        self.skipped += [skip for skip in self._tars.skipped if skip.id.endswith(".tar")]
        names = {photo: posixpath.basename(photo) for photo in photos}
        wanted = set(names.values())
        members = {
            name: index
            for index, item in enumerate(self._tars.items)
            if (name := posixpath.basename(item.id)) in wanted
        }
        return {photo: members[name] for photo, name in names.items() if name in members}

    def _in_tars(self) -> WebDatasetSource:
        assert self._tars is not None
        return self._tars

    def read(self, index: int) -> bytes:
        place = self._places[index]
        return read_file(place) if isinstance(place, str) else self._in_tars().read(place)

    def path(self, index: int) -> str:
        place = self._places[index]
        return place if isinstance(place, str) else self._in_tars().path(place)

    def file(self, index: int) -> str:
        place = self._places[index]
        return place if isinstance(place, str) else self._in_tars().file(place)

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


def split_name(split: object) -> str:
    """Return the name of a split, given as the file has it: COCO's `restval` is for training too."""
    name = split.strip() if isinstance(split, str) else ""
    return "train" if name == "restval" else name


def read_text(path: Path, name: str) -> str:
    """Return the text of a file with captions.

    Raises:
        DataError: it cannot be read or decoded.
    """
    try:
        return decode_text(read_file(path, most=LARGEST_TABLE))
    except ValueError as error:
        raise DataError(f"{name} is {error}") from None
    except UnreadableImage as error:
        raise DataError(f"{name} cannot be read: {error.reason}") from error
