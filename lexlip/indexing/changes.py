"""What has changed in a source since it was indexed, what has only moved, and so what an update does."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

from anserini_bridge import IndexMetadata, read_header
from anserini_bridge.sparse_rows import Rows
from lexlip.data import Skipped, Source, Unlisted, Unreadable, UnreadableImage
from lexlip.data.extra_kinds import lacks_package
from lexlip.data.facts import Facts, digest
from lexlip.data.files import FileState, is_mounted, state_of
from lexlip.data.images import READER
from lexlip.errors import FixableError
from lexlip.indexing.table_writer import side_names
from lexlip.retrieval.photo import Listed, Photo
from lexlip.retrieval.photo_table import PhotoTable, open_photos

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from anserini_bridge import FlatSearcher, ImpactSearcher

_AT_ONCE = 10_000  # photos whose words are read at a time

Known = dict[int, tuple[str, Facts]]
"""Photos whose content an index has, by index in the source: the id in the index, and the facts."""

ByContent = dict[int, dict[str, list[Photo]]]
"""Photos by size, then by digest."""


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

    A photo counts as changed if its file, its tar, or one of its `sides` has another size or other times
    than when it was read. Older indexes do not store these: there a photo has changed if it was written after
    the index's listing began. If a clock was wrong, and that is in the future, all have. No photo is opened.

    Args:
        extra: what the index stores about its source (see `describe_collection`); with "paths", where each
            photo was, by id, and "kept", see `kept_since`.
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
        other_sides = was is not None and was.side != side_names(source, number)
        now = source.state(number, state)
        if was is not None and was.state:
            written = was.state != now
        else:
            written = _written_after(_since(item.id, earlier, listed), source, number, state)
        if item.id in damaged or moved or other_sides or written:
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

    `mounts` are those of `mount_points` when the index was written; `listed` and `held` the ids of photos in
    the source now, and in the index.
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
    """Return since when places (see `Unlisted`; photos that cannot be read now, too) have not been listed.

    That is "kept" of the new index, given what the old one stores about its source: what is modified there
    later counts as changed, also if the index is written in between.
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
    states = [state(file) for file in (source.file(number), *source.sides(number))]
    return since > time() or any(one is None or one.written > since * 1e9 for one in states)


def find_known(source: Source, changes: Changes, table: PhotoTable) -> Known:
    """Find new and changed photos whose content is that of an indexed one.

    A changed photo is compared with itself, and then, as a new one, with those that are gone and with other
    changed ones, since files may have been renumbered: by the size of the file, then by its digest. Only
    files of a size that fits are read. Each photo is found once.
    """
    known: Known = {}
    others = [photo for photo in table.get(changes.gone) if photo]
    changed = [source.items[number].id for number in changes.changed]
    for number, photo in zip(changes.changed, table.get(changed), strict=True):
        if photo and (found := _find(source, number, _by_content([photo]))):
            known[number] = found
        elif photo:
            others.append(photo)
    contents = _by_content(others)
    for number in (*changes.new, *changes.changed):
        if number not in known and (found := _find(source, number, contents)):
            known[number] = found
    return known


def known_photos(
    earlier: Path, source: Source, numbers: Sequence[int]
) -> Iterator[tuple[list[str], csr_matrix, list[tuple[int, Facts]]]]:
    """Yield photos of a source whose content an earlier index of it holds: ids, whole weights [n, V], facts.

    The index was made with the model and settings of today. Only photos with these numbers are looked for;
    facts come with the index in the source.
    """
    from anserini_bridge import ImpactSearcher

    with ImpactSearcher(earlier) as searcher, open_photos(earlier, searcher.metadata) as table:
        held = set(searcher.ids())
        changed = [number for number in numbers if source.items[number].id in held]
        new = [number for number in numbers if source.items[number].id not in held]
        gone = sorted(held.difference(item.id for item in source.items))
        known = sorted(find_known(source, Changes(new, changed, gone, 0), table).items())
        for start in range(0, len(known), _AT_ONCE):
            some = known[start : start + _AT_ONCE]
            rows = searcher.vectors([id for _, (id, _) in some])
            ids = [source.items[number].id for number, _ in some]
            yield ids, rows, [(number, facts) for number, (_, facts) in some]


def _by_content(photos: Iterable[Photo]) -> ByContent:
    found: ByContent = {}
    for photo in photos:
        if photo.digest and photo.size is not None:
            found.setdefault(photo.size, {}).setdefault(photo.digest, []).append(photo)
    return found


def _find(source: Source, number: int, photos: ByContent) -> tuple[str, Facts] | None:
    """Return the id of the photo with the same content, which is taken away from the others, and its facts.

    Of these, what lies beside the photo may have changed.
    """
    sized = photos.get(_size(source, number))
    if not sized:
        return None
    state = source.state(number)  # before the file is read: it may change meanwhile
    try:
        same = sized.get(digest(source.read(number)))
    except UnreadableImage:
        return None
    if not same:
        return None
    photo, facts = same.pop(0), source.header(number)
    known = replace(facts, size=photo.size, digest=photo.digest, fingerprint=photo.fingerprint, state=state)
    return photo.id, known


def _size(source: Source, number: int) -> int:
    """Return the bytes of a photo's file, or of its part of a tar; -1 if it is not there."""
    place = source.place(number)
    if place.size is not None:
        return place.size
    try:
        return os.stat(place.file).st_size  # noqa: PTH116
    except OSError:
        return -1


@dataclass(frozen=True)
class Plan:
    """What an update does.

    Attributes:
        changes: of the source since the index was written.
        held: photos of the index.
        known: new and changed photos whose content the index has.
        vectors: of these, [n, V].
        unchanged: indices in the source.
        described: how many of the unchanged have other captions.
        damaged: ids of photos whose words cannot be read.
        unreadable: photos that could not be read before, and have not changed; they are not tried again.
        skipped: these, and those that are out of reach, with the reason.
        kept: how many photos of the index may not be gone, as their place or their file is out of reach.
        places: what is out of reach, see `kept_since`.
    """

    changes: Changes
    held: int
    known: Known
    vectors: csr_matrix | None
    unchanged: list[int]
    described: int
    damaged: set[str]
    unreadable: dict[str, Unreadable]
    skipped: list[Skipped]
    kept: int
    places: list[str]

    @property
    def moved(self) -> set[str]:
        """Former ids, which are gone, of photos that have another one now."""
        return {id for id, _ in self.known.values()}.intersection(self.changes.gone)

    def moves(self, source: Source) -> dict[str, str]:
        """Return the new ids of photos by their former ones.

        A former one is gone, or is that of another known photo now. If an unknown one has it, that is the
        photo, edited, and the other a copy of what it was.
        """
        now = {source.items[number].id: id for number, (id, _) in self.known.items()}
        left = {*self.changes.gone, *now}
        return {id: new for new, id in now.items() if id != new and id in left}

    def copies(self, source: Source) -> set[str]:
        """Return the ids of new photos whose content is known, and which have not moved."""
        known = {source.items[number].id for number in self.known.keys() & {*self.changes.new}}
        return known.difference(self.moves(source).values())

    @property
    def deleted(self) -> set[str]:
        """Ids of photos that are gone for good."""
        return set(self.changes.gone) - self.moved

    @property
    def to_encode(self) -> list[int]:
        """Indices in the source."""
        return sorted({*self.changes.new, *self.changes.changed} - self.known.keys())

    @property
    def writes(self) -> bool:
        """Whether the index is to change."""
        return bool(self.to_encode or self.changes.gone or self.known or self.described)


def plan_update(
    source: Source,
    searcher: ImpactSearcher | FlatSearcher,
    table: PhotoTable,
    metadata: IndexMetadata,
    prune: bool,
) -> Plan:
    """Return what an update of an index of words does, given its searcher and its table."""
    readable = searcher.ids()
    listed = table.listed()
    damaged = set(listed).difference(readable)  # only the segments that are left out hold them
    held = [*readable, *damaged]
    extra = metadata.extra if "root" in metadata.extra else {**metadata.extra, "paths": table.paths()}
    mounts = {} if prune else extra.get("mounts", {})
    gone_disks = unmounted(mounts, (item.id for item in source.items), held)
    source.unlisted = [*source.unlisted, *gone_disks]
    found = find_changes(source, held, extra, listed, damaged)
    opened = {*found.new, *found.changed}
    unchanged = [number for number in range(len(source)) if number not in opened]
    items = (source.items[number] for number in unchanged)
    described = sum(item.id in listed and listed[item.id].captions != item.captions for item in items)

    remembered = table.unreadable() if metadata.extra.get("reader") == READER else {}
    unreadable = _still_unreadable(source, found.new, remembered)
    away = {} if prune else _out_of_reach(source, [*found.new, *found.changed])
    changes = replace(
        found,
        new=[number for number in found.new if source.items[number].id not in unreadable | away],
        changed=[number for number in found.changed if source.items[number].id not in away],
    )
    if prune:
        changes = replace(changes, gone=sorted([*found.gone, *found.kept]), kept=[])
    twins = find_known(source, changes, table)
    known = {number: (id, facts) for number, (id, facts) in twins.items() if id not in damaged}
    rows = searcher.vectors([id for id, _ in known.values()]) if known else None
    waiting = [id for number in found.changed if (id := source.items[number].id) in away]
    reasons = {id: photo.reason for id, photo in unreadable.items()} | away
    return Plan(
        changes,
        len(held),
        known,
        rows.csr() if isinstance(rows, Rows) else rows,
        unchanged,
        described,
        damaged,
        unreadable,
        [Skipped(id, reason) for id, reason in reasons.items()],
        len(changes.kept) + len(waiting),
        [*(place.id for place in source.unlisted if changes.kept), *waiting],
    )


def _still_unreadable(source: Source, new: list[int], before: dict[str, Unreadable]) -> dict[str, Unreadable]:
    """Return the new photos that could not be read before and have not changed since, by id."""
    state = cache(state_of)
    ids = {source.items[number].id: number for number in new} if before else {}
    now = {id: state(source.file(ids[id])) for id in before if id in ids}
    return {
        id: before[id]
        for id, is_now in now.items()
        if is_now is not None and (is_now.size, is_now.written) == (before[id].size, before[id].written)
    }


def damaged_copies(index: Path, source: Source) -> set[str]:
    """Return the paths of photos that the index found unreadable, and that hide files of the same photo.

    The set is empty if that cannot be known: there is no index, or it is damaged.
    """
    remembered: dict[str, Unreadable] = {}
    with suppress(FixableError):
        header = read_header(index)
        if header.extra.get("reader") == READER:
            with open_photos(index, header) as table:
                remembered = table.unreadable()
    return copies_hidden(source, remembered)


def copies_hidden(source: Source, remembered: dict[str, Unreadable]) -> set[str]:
    """Return the paths of photos that were found unreadable, and that hide files of the same photo."""
    items = ((number, item.id) for number, item in enumerate(source.items) if item.id in remembered)
    hiding = {id: number for number, id in items if source.same(number)}
    return {source.path(hiding[id]) for id in _still_unreadable(source, list(hiding.values()), remembered)}


def _out_of_reach(source: Source, numbers: list[int]) -> dict[str, str]:
    """Return the photos whose files cannot be opened or read now, by id, and why."""
    reasons: dict[str, str] = {}  # by file: a tar is opened once
    lacking = {id: why for number in numbers if (why := lacks_package(id := source.items[number].id))}
    for number in numbers:
        file = source.file(number)
        if file not in reasons:
            reasons[file] = source.out_of_reach(number)
    ids = ((source.items[number].id, reasons[source.file(number)]) for number in numbers)
    return {id: reason for id, reason in ids if reason} | lacking
