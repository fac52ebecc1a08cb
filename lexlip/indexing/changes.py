"""Which photos of a source have changed since they were indexed."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from lexlip.data import Source


@dataclass(frozen=True)
class Changes:
    """Photos of a source compared with an index.

    Attributes:
        new, changed: indices in the source.
        gone: ids that only the index has.
        unchanged: how many photos did not change.
    """

    new: list[int]
    changed: list[int]
    gone: list[str]
    unchanged: int


def find_changes(
    source: Source,
    held: Iterable[str],
    extra: dict[str, Any],
    sides: Mapping[str, str] | None = None,
    damaged: Container[str] = (),
) -> Changes:
    """Compare a source with the ids that an index holds.

    A photo counts as changed if its file, or the tar that it is in, or the XMP file beside it, was modified
    since the listing for the index began. No photo is opened.

    Args:
        source: the photos now.
        held: the ids in the index.
        extra: what the index stores about its source (see `describe_collection`); with "paths", where each
            photo was, by id.
        sides: name of the XMP file beside each photo then, by id, "" if there was none; None is unknown.
        damaged: ids of photos that count as changed, as the index cannot be read there.
    """
    newer = cache(lambda file: _changed_after(file, extra["listed"]))
    paths = extra.get("paths", {})
    gone = set(held)
    new, changed, unchanged = [], [], 0
    for number, item in enumerate(source.items):
        if item.id not in gone:
            new.append(number)
            continue
        gone.remove(item.id)
        moved = item.id in paths and paths[item.id] != source.path(number)
        side = source.side(number)
        other_side = sides is not None and sides.get(item.id, "") != os.path.basename(side or "")  # noqa: PTH119
        if (
            item.id in damaged
            or moved
            or other_side
            or newer(source.file(number))
            or (side is not None and newer(side))
        ):
            changed.append(number)
        else:
            unchanged += 1
    return Changes(new, changed, sorted(gone), unchanged)


def _changed_after(file: str, time: float) -> bool:
    """Return whether a file, or a link to it, was written after a time, or moved here with an older date."""
    try:
        found = (os.stat(file), os.lstat(file))  # noqa: PTH116 (a Path for each file is slow)
    except OSError:  # reading the photo will say why
        return True
    return max(max(status.st_mtime, status.st_ctime) for status in found) > time
