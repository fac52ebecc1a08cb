"""Finds photos by the paths that a table or a split file gives them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

from lexlip.words.plain_text import composed

T = TypeVar("T")


class _Photo(NamedTuple, Generic[T]):
    path: str
    place: T


class NamedPhotos(Generic[T]):
    """Photos that are there, by their paths; names are compared in Unicode's NFC.

    A name is the photo whose path ends with it, or has its longest end, at least the file name: Karpathy's
    val2014/a.jpg may lie in any tar. A folder a and a tar a.tar are the same in paths. If that may be two
    photos, or a photo may be two names, it is refused.

    Args:
        names: all that the file has.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = list(dict.fromkeys(names))
        self._file_names = {_file_name(name) for name in self._names}
        self._whole: dict[str, list[_Photo[T]]] = {}  # by path
        self._ends: dict[str, list[_Photo[T]]] = {}  # by each end of a path; two are enough to be unclear

    def add(self, path: str, place: T, whole: bool = False) -> None:
        """Add a photo; all are added before the first is looked for.

        Args:
            path: below a folder, in a tar with the tar's name.
            place: what `find` is to return.
            whole: names must end with the whole path, not the other way round.
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
