"""Words of photos as keywords: those that a model is sure of, and the XMP files beside the photos."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lexlip.data import Source
from lexlip.data.files import read_beside
from lexlip.data.folder import FolderSource
from lexlip.data.side_files import with_words
from lexlip.errors import ConfigError, DataError, UnreadableImage, writing
from lexlip.machine.output_files import check_output, write_output
from lexlip.words.plain_text import composed

if TYPE_CHECKING:
    from lexlip.models.lexlip import LexLIP
    from lexlip.queries.photo_encoder import PhotoEncoder
    from lexlip.queries.photo_vectors import PhotoVectors


class SideFiles:
    """The XMP files of a folder's photos, one for each photo.

    It is NAME.jpg.xmp, or the NAME.xmp that is there, unless that is of several photos.

    Raises:
        DataError: the photos are not files of a folder.
    """

    def __init__(self, source: Source) -> None:
        if not isinstance(source, FolderSource):
            raise DataError(
                f"keywords are written beside photos, and {source.name} is no folder of them: give a folder"
            )
        self.source = source
        self._stems = Counter(_stem(item.id) for item in source.items)

    def of(self, number: int) -> str:
        """Return the path of a photo's file, which need not be there."""
        whole = f"{self.source.path(number)}.xmp"
        several = self._stems[_stem(self.source.items[number].id)] > 1
        names = [whole] if several else [whole, f"{_stem(self.source.path(number))}.xmp"]
        fitting = {composed(_stem(name)) for name in names}  # not that of a RAW file beside the photo
        sides = (side for side in self.source.sides(number) if side.lower().endswith(".xmp"))
        return next((side for side in sides if composed(_stem(side)) in fitting), whole)

    def unwritable(self) -> dict[int, str]:
        """Return the photos whose files cannot be written, and why; each folder is tried once.

        Raises:
            DataError: that is all of them.
        """
        reasons: dict[int, str] = {}
        tried: set[str] = set()
        for number in range(len(self.source)):
            path = self.of(number)
            folder = os.path.dirname(path)  # noqa: PTH120
            try:
                _check_may_change(path)
                if folder not in tried or os.path.isdir(path):  # noqa: PTH112
                    check_output(path)
                tried.add(folder)
            except DataError as error:
                reasons[number] = str(error)
        if len(reasons) == len(self.source):
            raise DataError(
                f"no keywords can be written beside the photos of {self.source.name}: {reasons[0]}"
            )
        return reasons

    def change(self, number: int, words: Sequence[str]) -> bool:
        """Make these the program's words of a photo; return whether that changed anything.

        Raises:
            UnreadableImage: the file is no XMP, or leads out of the folder; it stays as it is.
            DataError: it cannot be written, or is read-only, though its folder may let it be replaced.
        """
        path = self.of(number)
        there = os.path.lexists(path)
        data = read_beside(path, self.source.real_roots) if there else b""
        try:
            changed = with_words(data, words)
        except ValueError as error:
            raise UnreadableImage(str(error), path) from error
        if changed is None:
            return False
        _check_may_change(path)
        place = Path(path).resolve()
        with writing(path):
            if changed:
                mode = place.stat().st_mode if there else None
                write_output(place, changed)
                if mode is not None:
                    place.chmod(mode)
            else:
                place.unlink()
        return True


def _check_may_change(path: str) -> None:
    """Raise DataError if a file is there that nobody, or not this user, may write."""
    with writing(path), suppress(FileNotFoundError):
        if not (os.stat(path).st_mode & 0o222 and os.access(path, os.W_OK)):  # noqa: PTH116
            raise PermissionError(errno.EACCES, "it is read-only")


def _stem(id: str) -> str:
    return id.rpartition(".")[0]


def _without_forms(words: dict[str, float]) -> dict[str, float]:
    """Return words without further forms of one: "dog", and not "dogs" after it."""
    first: dict[str, str] = {}
    for word in words:
        first.setdefault(_root(word), word)
    return {word: words[word] for word in first.values()}


def _root(word: str) -> str:
    """Return what is left of an English word without an ending: good enough among a photo's few words."""
    ending = next((end for end in ("ing", "ed", "es", "s") if word.endswith(end)), "")
    root = word.removesuffix(ending) if len(word) - len(ending) > 2 else word
    root = root.removesuffix("e")
    return root[:-1] if root[-2:-1] == root[-1:] else root


def sure_words(
    model: LexLIP | PhotoEncoder, photos: PhotoVectors, least: float
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the id of each photo with the words that somebody says at least so likely, likeliest first.

    Raises:
        ConfigError: the model does not know how likely people are to say a word.
    """
    if model.likely is None:
        raise ConfigError("this model does not know how likely people are to say a word: give --model mini")
    words = model.vocabulary.words
    for ids, vectors in photos:
        chances = model.likely.chances(vectors)
        for row, id in enumerate(ids):
            one = chances[row]
            sure = sorted(zip(-one.data, one.indices, strict=True))
            yield id, _without_forms({words[at]: float(-chance) for chance, at in sure if -chance >= least})
