"""Which photos of a source have changed since they were indexed."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from time import time
from typing import Any

from lexlip.data import Source, Unlisted
from lexlip.data.files import FileState, state_of
from lexlip.data.mounts import is_mounted
from lexlip.retrieval.photo_table import Listed


@dataclass(frozen=True)
class Changes:
    """Photos of a source compared with an index.

    Attributes:
        new, changed: indices in the source.
        gone: ids that only the index has.
        unchanged: how many photos did not change.
        kept: ids of which it is not known whether they are gone: their place could not be listed.
        states: those of unchanged photos, by id, that the index did not know.
    """

    new: list[int]
    changed: list[int]
    gone: list[str]
    unchanged: int
    kept: list[str] = field(default_factory=list)
    states: dict[str, str] = field(default_factory=dict)


def find_changes(
    source: Source,
    held: Iterable[str],
    extra: dict[str, Any],
    stored: Mapping[str, Listed] | None = None,
    damaged: Container[str] = (),
) -> Changes:
    """Compare a source with the ids that an index holds.

    A photo counts as changed if its file, or the tar that it is in, or the XMP file beside it, has another
    size or other times than when it was read. Older indexes do not know these: there it has changed if it was
    written since the listing for the index began, or if that lies in the future, as a clock was wrong. No
    photo is opened.

    Args:
        source: the photos now.
        held: the ids in the index.
        extra: what the index stores about its source (see `describe_collection`); with "paths", where each
            photo was, by id; "kept" tells since when photos that were kept have not been listed (see
            `kept_since`).
        stored: what the index knows of photos, by id; older ones know nothing, or not the state.
        damaged: ids of photos that count as changed, as the index cannot be read there.
    """
    state = lru_cache(maxsize=1024)(state_of)  # of a tar for all of its photos
    listed, earlier = extra["listed"], extra.get("kept", {})
    paths = extra.get("paths", {})
    gone = set(held)
    new, changed, unchanged = [], [], 0
    learned: dict[str, str] = {}
    for number, item in enumerate(source.items):
        if item.id not in gone:
            new.append(number)
            continue
        gone.remove(item.id)
        moved = item.id in paths and paths[item.id] != source.path(number)
        was = (stored or {}).get(item.id)
        other_side = was is not None and was.side != os.path.basename(source.side(number) or "")  # noqa: PTH119
        now = source.state(number, state)
        if was is not None and was.state:
            written = was.state != now
        else:
            written = _written_after(_since(item.id, earlier, listed), source, number, state)
        if item.id in damaged or moved or other_side or written:
            changed.append(number)
            continue
        unchanged += 1
        if was is not None and not was.state:
            learned[item.id] = now
    unlisted = {place.id for place in source.unlisted}
    kept = sorted(id for id in gone if unlisted.intersection(places_above(id))) if unlisted else []
    return Changes(new, changed, sorted(gone.difference(kept)), unchanged, kept, learned)


def places_above(id: str) -> Iterator[str]:
    """Yield an id, the tar and the folders that it lies in, and "", which is the whole source."""
    while id:
        yield id
        id = id.rpartition("/")[0]
    yield ""


def unmounted(mounts: Mapping[str, str], listed: Iterable[str], held: Iterable[str]) -> list[Unlisted]:
    """Return the places where a disk was mounted, and where now is nothing, or an empty folder.

    Args:
        mounts: see `lexlip.data.mounts.mount_points`, when the index was written.
        listed: ids of the photos now.
        held: ids of the photos of the index.
    """
    if not mounts:
        return []
    there = {place for id in listed for place in places_above(id)}
    lost = [place for place, folder in mounts.items() if place not in there and not is_mounted(folder)]
    known = {place for id in held for place in places_above(id)} if lost else set()
    return [Unlisted(place, "nothing is mounted there now") for place in lost if place in known]


def mounts_with(kept: Container[str], described: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    """Return "mounts" of the new index: those of now, and those of before whose photos are kept."""
    before = {place: folder for place, folder in extra.get("mounts", {}).items() if place in kept}
    mounts = before | described.get("mounts", {})
    return {"mounts": mounts} if mounts else {}


def kept_since(places: Iterable[str], extra: dict[str, Any]) -> dict[str, float]:
    """Return since when places have not been listed, for "kept" of the new index.

    What is modified there later counts as changed, also if the index is written in between.

    Args:
        places: see `lexlip.data.source.Unlisted`; a photo that cannot be read now is one, too.
        extra: what the index stores about its source now.
    """
    earlier = extra.get("kept", {})
    below: dict[str, float] = {}
    for place, listed in earlier.items():
        for above in places_above(place):
            below[above] = min(listed, below.get(above, listed))
    since = {place: _since(place, earlier, extra["listed"]) for place in places}
    return {place: min(listed, below.get(place, listed)) for place, listed in since.items()}


def _since(id: str, earlier: dict[str, float], listed: float) -> float:
    if not earlier:
        return listed
    return next((earlier[place] for place in places_above(id) if place in earlier), listed)


def _written_after(
    since: float, source: Source, number: int, state: Callable[[str], FileState | None]
) -> bool:
    """Return whether a photo's files were written after a time, or whether that cannot be told.

    It cannot if the time is still to come: then a clock was wrong.
    """
    files = filter(None, (source.file(number), source.side(number)))
    states = [state(file) for file in files]
    return since > time() or any(one is None or one.written > since * 1e9 for one in states)
