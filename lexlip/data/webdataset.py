"""Photos in tar files, as img2dataset and webdataset write them: KEY.jpg, KEY.txt, KEY.json."""

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from lexlip.data.files import Place
from lexlip.data.source import LazyItems, Skipped, Source, Unlisted
from lexlip.data.tar_shards import list_shards
from lexlip.errors import DataError

MOST_TARS = 100_000  # that a pattern names


class WebDatasetSource(Source):
    """Photos in tars, listed once by the tars' headers and then read in place; nothing is unpacked.

    Captions are `captions` (a list) or `caption` of KEY.json, or the lines of KEY.txt. The id of a photo is
    `SHARD.tar/KEY.jpg`, relative to the folder that holds all the tars; or to `root`, if these are not all.

    Raises:
        DataError: there is no photo in any of them.
    """

    def __init__(
        self, tars: Sequence[Path], name: str, may_be_empty: bool = False, root: str | None = None
    ) -> None:
        self.name = name
        self.tars = [str(tar.absolute()) for tar in tars]
        self.root = root or folder_of(tars)
        self.roots = [self.root]
        self._shards = list_shards(self.tars)
        names = [os.path.relpath(tar, self.root) for tar in self.tars]
        self.items = self._photos = LazyItems(self._shards, [f"{name}/" for name in names])
        skips = [
            (name, skip) for name, shard in zip(names, self._shards, strict=True) for skip in shard.skipped
        ]
        self.skipped = [
            Skipped(f"{name}/{skip.id}" if skip.id else name, skip.reason) for name, skip in skips
        ]
        self.unlisted = [Unlisted(name, skip.reason) for name, skip in skips if not skip.id]
        if not self.items and not may_be_empty:
            why = f" ({self.skipped[0].id}: {self.skipped[0].reason})" if self.skipped else ""
            raise DataError(f"no photos in the tars of {name}{why}")

    def path(self, index: int) -> str:
        return f"{self.root}/{self.items[index].id}"

    def place(self, index: int) -> Place:
        number, within = self._photos.locate(index)
        shard = self._shards[number]
        return Place(self.tars[number], int(shard.offsets[within]), int(shard.sizes[within]))

    def captioned(self) -> np.ndarray:
        return self._photos.captioned()


def folder_of(tars: Sequence[Path]) -> str:
    """Return the folder that holds all of some tars."""
    return os.path.commonpath([str(tar.absolute().parent) for tar in tars])


def match_tars(pattern: str) -> list[Path]:
    """Return the tars that match a pattern, in order; braces hold a range or a list: {000..012}, {train,val}.

    Raises:
        DataError: there is none, or some that the braces name are missing.
    """
    paths: dict[Path, None] = {}
    missing = []
    names = list(islice(expand_braces(pattern), MOST_TARS + 1))
    if len(names) > MOST_TARS:
        raise DataError(f"{pattern} names too many tars: name at most {MOST_TARS:,}")
    for name in names:
        found = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 (a pattern may be absolute)
        if not found and not glob.has_magic(name):
            missing.append(name)
        paths.update((Path(path), None) for path in found if path.lower().endswith(".tar"))
    if len(missing) == 1:
        raise DataError(f"{missing[0]} does not exist (named by {pattern})")
    if missing:
        first = ", ".join(os.path.basename(name) for name in missing[:5])  # noqa: PTH119
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise DataError(f"{len(missing)} of the tars that {pattern} names do not exist: {first}{more}")
    if not paths:
        raise DataError(f"no tar matches {pattern}")
    return list(paths)


def expand_braces(pattern: str) -> Iterator[str]:
    """Yield the names of a pattern with braces: a-{08..10} gives a-08, a-09 and a-10."""
    brace = re.search(r"\{([^{}]*)\}", pattern)
    if brace is None:
        yield pattern
        return
    bounds = re.fullmatch(r"(\d{1,99})\.\.(\d{1,99})", brace[1])
    choices: Iterable[str]
    if bounds:
        width = len(bounds[1]) if bounds[1].startswith("0") else 0
        choices = (f"{number:0{width}}" for number in range(int(bounds[1]), int(bounds[2]) + 1))
    else:
        choices = brace[1].split(",")
    for choice in choices:
        yield from expand_braces(pattern[: brace.start()] + choice + pattern[brace.end() :])
