"""Which photos of a source have changed since they were indexed."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from lexlip.data import Source
from lexlip.data.files import state_of


@dataclass(frozen=True)
class Changes:
    """Photos of a source compared with an index.

    Attributes:
        new, changed: indices in the source.
        gone: ids that only the index has.
        unchanged: how many photos did not change.
        kept: ids of which it is not known whether they are gone: their place could not be listed.
    """

    new: list[int]
    changed: list[int]
    gone: list[str]
    unchanged: int
    kept: list[str] = field(default_factory=list)


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
            photo was, by id; "kept" tells since when photos that were kept have not been listed (see
            `kept_since`).
        sides: name of the XMP file beside each photo then, by id, "" if there was none; None is unknown.
        damaged: ids of photos that count as changed, as the index cannot be read there.
    """
    newer = cache(_changed_after)
    listed, earlier = extra["listed"], extra.get("kept", {})
    paths = extra.get("paths", {})
    gone = set(held)
    new, changed, unchanged = [], [], 0
    for number, item in enumerate(source.items):
        if item.id not in gone:
            new.append(number)
            continue
        gone.remove(item.id)
        since = _since(item.id, earlier, listed)
        moved = item.id in paths and paths[item.id] != source.path(number)
        side = source.side(number)
        other_side = sides is not None and sides.get(item.id, "") != os.path.basename(side or "")  # noqa: PTH119
        written = newer(source.file(number), since) or (side and newer(side, since))
        if item.id in damaged or moved or other_side or written:
            changed.append(number)
        else:
            unchanged += 1
    unlisted = {place.id for place in source.unlisted}
    kept = sorted(id for id in gone if unlisted.intersection(places_above(id))) if unlisted else []
    return Changes(new, changed, sorted(gone.difference(kept)), unchanged, kept)


def places_above(id: str) -> Iterator[str]:
    """Yield an id, the tar and the folders that it lies in, and "", which is the whole source."""
    while id:
        yield id
        id = id.rpartition("/")[0]
    yield ""


def kept_since(places: Iterable[str], extra: dict[str, Any]) -> dict[str, float]:
    """Return since when places have not been listed, for "kept" of the new index.

    What is modified there later counts as changed, also if the index is written in between.

    Args:
        places: see `lexlip.data.source.Unlisted`; a photo that cannot be read now is one, too.
        extra: what the index stores about its source now.
    """
    earlier = extra.get("kept", {})
    below: dict[str, float] = {}
    for place, time in earlier.items():
        for above in places_above(place):
            below[above] = min(time, below.get(above, time))
    since = {place: _since(place, earlier, extra["listed"]) for place in places}
    return {place: min(time, below.get(place, time)) for place, time in since.items()}


def _since(id: str, earlier: dict[str, float], listed: float) -> float:
    if not earlier:
        return listed
    return next((earlier[place] for place in places_above(id) if place in earlier), listed)


def _changed_after(file: str, time: float) -> bool:
    """Return whether a file, or a link to it, was written after a time, or moved here with an older date."""
    state = state_of(file)
    return state is None or state[1] > time * 1e9  # reading the photo will say why
