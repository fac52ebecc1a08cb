"""Finds photos by the paths that a table or a split file gives them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

from lexlip.plain_text import composed

T = TypeVar("T")


class _Photo(NamedTuple, Generic[T]):
    path: str
    parts: list[str]  # of the path, the last one first
    place: T
    whole: bool


class NamedPhotos(Generic[T]):
    """Photos that are there, by their paths; names are compared in Unicode's NFC.

    A name is the photo whose path ends with it, or has its longest end, at least the file name: Karpathy's
    val2014/a.jpg may lie in any tar. A folder a and a tar a.tar are the same in paths. If that may be two
    photos, or a photo may be two names, it is refused.

    Args:
        names: all that the file has.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names: dict[str, list[str]] = {}  # by file name
        for name in dict.fromkeys(names):
            self._names.setdefault(_file_name(name), []).append(name)
        self._photos: dict[str, list[_Photo[T]]] = {}

    def add(self, path: str, place: T, whole: bool = False) -> None:
        """Add a photo.

        Args:
            path: below a folder, in a tar with the tar's name.
            place: what `find` is to return.
            whole: names must end with the whole path, not the other way round.
        """
        if (file_name := _file_name(path)) in self._names:
            photo = _Photo(path, _parts(path), place, whole)
            self._photos.setdefault(file_name, []).append(photo)

    def find(self, name: str) -> tuple[T | None, str]:
        """Return the photo of a name; or None, and why it is not clear which, or "" if there is none."""
        matched, best = self._best(name)
        if not best:
            return None, ""
        if len(best) > 1:
            return None, f"it may be {best[0].path} or {best[1].path}: give more of its path"
        (photo,) = best
        if matched < len(_parts(name)):
            others = (other for other in self._names[_file_name(name)] if other != name)
            if other := next((other for other in others if self._best(other)[1] == best), ""):
                return None, f"not there, and {photo.path} may be {other} as well"
        return photo.place, ""

    def _best(self, name: str) -> tuple[int, list[_Photo[T]]]:
        """Return how many parts of a name match at most, and the photos with so many."""
        parts = _parts(name)
        found: dict[tuple[int, bool], list[_Photo[T]]] = {}
        for photo in self._photos.get(_file_name(name), ()):
            matched = _matching(parts, photo.parts)
            if matched == len(photo.parts) or not photo.whole:
                same = matched == len(parts) == len(photo.parts)
                found.setdefault((matched, same), []).append(photo)
        best = max(found, default=(0, False))
        return best[0], found.get(best, [])


def _file_name(path: str) -> str:
    return composed(path).rpartition("/")[2]


def _parts(path: str) -> list[str]:
    return [part for part in reversed(composed(path).split("/")) if part not in ("", ".")]


def _matching(name: list[str], path: list[str]) -> int:
    """Return how many parts are the same, from the file name on."""
    for number, (one, other) in enumerate(zip(name, path, strict=False)):
        if other not in (one, f"{one}.tar"):
            return number
    return min(len(name), len(path))
