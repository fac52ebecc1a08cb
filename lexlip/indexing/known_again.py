"""Photos that an index holds already, under their own or another name: they are not encoded again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from scipy.sparse import csr_matrix

from anserini_bridge import ImpactSearcher
from lexlip.data import Source, UnreadableImage
from lexlip.data.facts import Facts, digest
from lexlip.indexing.changes import Changes
from lexlip.retrieval.photo_table import Photo, PhotoTable, open_photos

_AT_ONCE = 10_000  # photos whose words are read at a time

Known = dict[int, tuple[str, Facts]]
"""By the photo's index in the source: its id in the index, and the facts about it."""


def find_known(source: Source, changes: Changes, table: PhotoTable) -> Known:
    """Find new and changed photos whose content is that of an indexed one.

    A new photo is compared with those that are gone, and a changed one with itself: by the size of the file,
    then by its digest. Only files of a size that fits are read. Each photo that is gone is found once.
    """
    gone = _by_content(photo for photo in table.get(changes.gone) if photo)
    known: Known = {}
    for number in changes.new:
        if found := _find(source, number, gone):
            known[number] = found
    changed = [source.items[number].id for number in changes.changed]
    for number, photo in zip(changes.changed, table.get(changed), strict=True):
        if photo and (found := _find(source, number, _by_content([photo]))):
            known[number] = found
    return known


def known_photos(
    earlier: Path, source: Source, numbers: Sequence[int]
) -> Iterator[tuple[list[str], csr_matrix, list[tuple[int, Facts]]]]:
    """Yield those photos of a source whose content an earlier index of it holds.

    Args:
        earlier: its folder; the model and the settings were those of today.
        source: the photos now.
        numbers: of the photos to look for.

    Yields:
        Ids, whole weights [n, V], and facts with the index in the source.
    """
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


ByContent = dict[int, dict[str, list[Photo]]]
"""Photos by size, then by digest."""


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
