"""Updates an index of words: encodes new and changed photos, and deletes those that are gone.

What loads torch is imported only if photos have to be encoded, so an update without changes is quick.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.sparse import csr_matrix

from anserini_bridge import (
    ImpactSearcher,
    IndexLocked,
    IndexMetadata,
    read_header,
    read_metadata,
    update_index,
)
from anserini_bridge.runtime import has_anserini
from anserini_bridge.storage import UNFINISHED, WriterLock, remove_leftovers
from lexlip.data import Skipped, Source, Unreadable
from lexlip.data.facts import Facts
from lexlip.data.files import state_of
from lexlip.data.images import READER
from lexlip.errors import DataError, writing_index
from lexlip.indexing.caption_index import remove_old_captions, write_caption_index
from lexlip.indexing.changes import (
    Changes,
    Known,
    find_changes,
    find_known,
    kept_since,
    mounts_with,
    unmounted,
)
from lexlip.indexing.damage import look_for_damage
from lexlip.indexing.journal import Journal, settings_of
from lexlip.indexing.made_with import made_with
from lexlip.indexing.report import Updated, report
from lexlip.indexing.table_writer import TableWriter, remove_old_tables
from lexlip.models.model_folder import lasting_name
from lexlip.retrieval.collection import check_same_collection, describe_collection
from lexlip.retrieval.photo_table import PhotoTable, open_photos
from lexlip.retrieval.seal import can_seal, seal_table, sealed_tables, table_checksum
from lexlip.sparse.quantize import Scheme

FEWEST_DELETED = 5  # photos that an update deletes without being asked to, whatever their share is
LARGEST_SHARE = 0.2  # of an index that it deletes so

if TYPE_CHECKING:
    from lexlip.indexing.impact import Impacts
    from lexlip.queries.photo_vectors import PhotoVectors, Progress


def update_photos(
    source: Source,
    listed: float,
    index: str | Path,
    model_name: str | None = None,
    topk_words: int | Literal["all"] | None = None,
    scheme: Scheme | None = None,
    workers: int = 2,
    device: str = "auto",
    progress: bool | Progress = False,
    prune: bool = False,
    repair: bool = False,
    typed: bool = False,
) -> Updated:
    """Make an index of words match its source again, in one commit.

    Searches see all changes at once, after a refresh. An update that fails or is interrupted changes nothing;
    the next one takes what it had encoded.

    Args:
        source, listed, index, workers: see `lexlip.indexing.impact.index_photos`.
        progress: show a bar; or see `lexlip.queries.photo_vectors.PhotoPixels`.
        model_name: where the model is now; None is where it was.
        topk_words, scheme: None takes those that the index was made with; others are refused.
        prune: delete photos that are gone, however many they are, or whose place cannot be listed.
        repair: encode the photos again whose words are damaged, and write other damaged files again.
        typed: the user has named the source, so the index is sealed also if this user has not made it.

    Raises:
        CorruptIndex: the index is damaged, and is not to be repaired or cannot be.
        DataError: there is no index, it is of another source, too many photos are gone (see
            `check_deletions`), or the folder cannot be written. Of an index of an older version: a place
            cannot be listed.
        ConfigError: the index was made with other settings.
        ModelError: the model that made the index does not exist, or another one is named.
        BridgeError: no Java, or the index cannot be read (see anserini_bridge.errors).
    """
    started = time.perf_counter()
    index = Path(index)
    metadata = made_with(index, topk_words, scheme)
    described = describe_collection(source, index, listed)
    check_same_collection(metadata.extra, described, index)
    model = metadata.extra.get("model") if model_name is None else lasting_name(model_name)
    extra = {"model": model, "reader": READER, **described}
    damage = look_for_damage(index)
    if repair:
        damage.prepare_repair(model_name)
    else:
        damage.refuse()
    sound = replace(metadata, extra=damage.kept(metadata.extra))
    writer = update_index(index, without=damage.segments)
    with ImpactSearcher(index, without=damage.segments) as searcher, open_photos(index, sound) as old_table:
        plan = _plan(source, searcher, old_table, sound, prune)
    if plan.places and "photos" not in metadata.extra:
        raise DataError(
            f"{plan.places[0] or source.name} is out of reach, and an older version made the index {index}:"
            " make it accessible, or give --prune to delete its photos"
        )
    if not prune:
        check_deletions(len(plan.deleted), plan.held, index)

    photos: PhotoVectors | None = None
    batches: Iterator[Impacts] = iter(())
    if plan.to_encode or model_name is not None:
        photos, batches = _encode(
            index, metadata, model_name, source, plan.to_encode, workers, device, progress
        )
    settings = settings_of(metadata.encoder, metadata.topk, metadata.quantization["scheme"])
    journal = Journal(index, settings, source, listed, metadata.vocabulary_size, np.int32, plan.to_encode)
    encoded: set[str] = set()
    changed = {source.items[number].id for number in plan.changes.changed}
    lost: set[str] = set()
    away: set[str] = set()  # opened, but then not read
    renamed = model != metadata.extra.get("model")
    captions_wait = "captions_left_out" in metadata.extra and has_anserini()
    mounted = not described.get("mounts", {}).items() <= metadata.extra.get("mounts", {}).items()
    sealed = _is_sealed(index, sound)
    seal_waits = typed and not (sealed or plan.kept) and can_seal()
    waits = captions_wait or mounted or seal_waits
    if plan.to_encode or plan.writes or changed or damage.files or renamed or waits:
        with writing_index(index), writer:
            named = read_metadata(index).extra
            remove_old_tables(writer.folder, keep=named.get("photos"))
            remove_old_captions(writer.folder, keep=named.get("captions", {}).get("folder"))
            held = damage.kept(named)
            with TableWriter(writer.folder, index, source, held.get("photos")) as table:
                writer.delete(plan.changes.gone)
                table.delete(plan.changes.gone)
                if plan.known:
                    writer.upsert([source.items[number].id for number in plan.known], plan.vectors)
                    table.add((number, facts) for number, (_, facts) in plan.known.items())
                if photos is not None and plan.to_encode:
                    with journal:
                        photos.indices = journal.missing
                        for ids, rows, facts in journal.all(photos, batches):
                            writer.upsert(ids, rows)
                            encoded.update(ids)
                            table.add(facts)
                away = photos.away & changed if photos is not None and not prune else set()
                lost = changed - encoded - plan.known_ids(source) - away  # those that cannot be read any more
                if not prune:
                    check_deletions(len(plan.deleted) + len(lost), plan.held, index)
                writer.delete(sorted(lost))
                table.delete(lost)
                if damage.has(named.get("photos")):
                    for facts in _facts_again(index, metadata, model_name, source, plan.unchanged, workers):
                        table.add(facts)
                table.refresh(plan.unchanged, plan.changes.states)
                table.remember(plan.unreadable | (photos.unreadable if photos is not None else {}))
            if places := [*plan.places, *away]:
                extra["kept"] = kept_since(places, held)
            extra |= mounts_with(places, described, held)
            extra = write_caption_index(writer.folder, index, {**extra, "photos": table.name}, held)
            if sealed or (typed and not (plan.kept or away)):  # what is kept may be made up
                extra = seal_table(extra, writer.folder)
            writer.set_extra(extra, [table.name])
    _clear(index, journal)
    return report(
        Updated,
        index,
        source,
        started,
        read_metadata(index).postings,
        [*plan.skipped, *(photos.skipped if photos else ())],
        len(plan.to_encode) - len(photos.indices) if photos else 0,
        added=len(encoded - changed),
        changed=len(changed - lost - away - plan.damaged),
        deleted=len(plan.deleted) + len(lost),
        unchanged=plan.changes.unchanged,
        moved=len(plan.moved),
        described=plan.described,
        repaired=len(encoded & plan.damaged),
        damaged_files=len(damage.files),
        kept=plan.kept + len(away),
        listed_ahead=max(0.0, metadata.extra["listed"] - listed),
    )


def _is_sealed(index: Path, metadata: IndexMetadata) -> bool:
    """Return whether this user sealed an index, and its table, if that is to be kept, is the same still."""
    tables, table = sealed_tables(metadata.extra), metadata.extra.get("photos")
    if table is None:
        return bool(tables)
    return table in tables and tables[table] == table_checksum(index / metadata.directory / table)


def check_deletions(deleted: int, held: int, index: Path) -> None:
    """Refuse to delete many of the photos that an index holds at once, as they may only be out of reach.

    Raises:
        DataError: these are more than a fifth, and at least FEWEST_DELETED.
    """
    if deleted >= FEWEST_DELETED and deleted > LARGEST_SHARE * held:
        raise DataError(
            f"{deleted} of the {held} photos of {index} are gone, as if a disk were not mounted: nothing was"
            " changed; give --prune to delete them"
        )


@dataclass(frozen=True)
class _Plan:
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
        """Former ids of photos that have another one now."""
        return {id for id, _ in self.known.values()}.intersection(self.changes.gone)

    @property
    def deleted(self) -> set[str]:
        return set(self.changes.gone) - self.moved

    @property
    def to_encode(self) -> list[int]:
        return sorted({*self.changes.new, *self.changes.changed} - self.known.keys())

    @property
    def writes(self) -> bool:
        return bool(self.changes.gone or self.known or self.described)

    def known_ids(self, source: Source) -> set[str]:
        return {source.items[number].id for number in self.known}


def _plan(
    source: Source, searcher: ImpactSearcher, table: PhotoTable, metadata: IndexMetadata, prune: bool
) -> _Plan:
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
    vectors = searcher.vectors([id for id, _ in known.values()]) if known else None
    waiting = [id for number in found.changed if (id := source.items[number].id) in away]
    reasons = {id: photo.reason for id, photo in unreadable.items()} | away
    return _Plan(
        changes,
        len(held),
        known,
        vectors,
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


def _out_of_reach(source: Source, numbers: list[int]) -> dict[str, str]:
    """Return the photos whose files cannot be opened now, by id, and why."""
    reasons: dict[str, str] = {}  # by file: a tar is opened once
    for number in numbers:
        file = source.file(number)
        if file not in reasons:
            reasons[file] = source.out_of_reach(number)
    ids = ((source.items[number].id, reasons[source.file(number)]) for number in numbers)
    return {id: reason for id, reason in ids if reason}


def _encode(
    index: Path,
    metadata: IndexMetadata,
    model_name: str | None,
    source: Source,
    to_encode: list[int],
    workers: int,
    device: str,
    progress: bool | Progress,
) -> tuple[PhotoVectors, Iterator[Impacts]]:
    from lexlip.indexing.impact import impacts
    from lexlip.queries.photo_vectors import PhotoVectors
    from lexlip.search.stages.index_model import check_encoder, load_encoder

    check_encoder(index, metadata, model_name)
    encoder = load_encoder(index, metadata, model_name, device)
    photos = PhotoVectors(
        encoder,
        source,
        workers=workers,
        progress=progress if callable(progress) else "index" if progress else None,
        indices=to_encode,
        facts=True,
    )
    return photos, impacts(photos, metadata.topk, metadata.quantization["scheme"])


def _clear(index: Path, journal: Journal) -> None:
    """Delete what interrupted runs have left beside an index that is complete."""
    if len([*index.glob("data-*"), *index.glob(UNFINISHED)]) > 1:
        with suppress(IndexLocked), writing_index(index), WriterLock(index):
            remove_leftovers(index, keep=read_header(index).directory)
            journal.forget()


def _facts_again(
    index: Path,
    metadata: IndexMetadata,
    model_name: str | None,
    source: Source,
    numbers: list[int],
    workers: int,
) -> Iterator[list[tuple[int, Facts]]]:
    """Yield the facts about photos that are not encoded, with their index in the source."""
    from lexlip.config import ModelConfig
    from lexlip.config_files import from_dict
    from lexlip.models.model_folder import model_folder, read_description
    from lexlip.queries.photo_vectors import PhotoPixels
    from lexlip.search.stages.index_model import check_encoder

    description = read_description(model_folder(check_encoder(index, metadata, model_name)))
    image = from_dict(ModelConfig, description["model"], "model.").image
    photos = PhotoPixels(image, source, workers=workers, indices=numbers, facts=True)
    for ids, _ in photos.arrays():
        yield photos.take_facts(ids)
