"""Updates an index of words: encodes new and changed photos, and deletes those that are gone.

What loads torch is imported only if photos have to be encoded, so an update without changes is quick.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from anserini_bridge import (
    FLAT_POSTINGS,
    FlatSearcher,
    IndexHeader,
    IndexLocked,
    IndexMetadata,
    IndexNotFound,
    has_flat,
    read_header,
    read_metadata,
    update_index,
)
from anserini_bridge.jvm import has_anserini
from anserini_bridge.storage import UNFINISHED, WriterLock, remove_leftovers
from lexlip.data import Given, Source
from lexlip.data.facts import Facts
from lexlip.data.images import READER
from lexlip.errors import ConfigError, DataError, FixableError, writing_index
from lexlip.indexing.bm25 import files_beside, remove_old_captions, write_caption_index
from lexlip.indexing.changes import Plan, kept_since, mounts_with, plan_update
from lexlip.indexing.damage import Damage, look_for_damage
from lexlip.indexing.journal import Journal, settings_of
from lexlip.indexing.report import Updated, report
from lexlip.indexing.table_writer import TableWriter, remove_old_tables
from lexlip.models.model_folder import check_model, lasting_name, model_folder, read_description
from lexlip.retrieval.albums import Albums
from lexlip.retrieval.collection import (
    check_same_collection,
    check_stored,
    describe_collection,
    given_again,
    store_given,
)
from lexlip.retrieval.photo_table import open_photos
from lexlip.retrieval.seal import can_seal, is_sealed, seal_table
from lexlip.search.engines.shard import read_index_of_words
from lexlip.search.stages.index_model import was_replaced
from lexlip.sparse.balance import scheme_of
from lexlip.sparse.quantize import Scheme

FEWEST_DELETED = 5  # photos that an update deletes without being asked to, whatever their share is
LARGEST_SHARE = 0.2  # of an index that it deletes so

if TYPE_CHECKING:
    from anserini_bridge import ImpactSearcher, ImpactWriter
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
    the next one takes what it had encoded. If the model that made the index is a packaged one, and an upgrade
    has replaced it, all photos are encoded anew.

    Args:
        source, listed, index, workers, progress: see `lexlip.indexing.impact.index_photos`.
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
    """
    started = time.perf_counter()
    index = Path(index)
    metadata = made_with(index, topk_words, scheme)
    described = describe_collection(source, index, listed)
    check_same_collection(metadata.extra, described, index)
    damage = look_for_damage(index)
    anew = is_to_renew(metadata, model_name)
    if not repair:
        damage.refuse()
    elif not anew:
        damage.prepare_repair(model_name)
    sound = replace(metadata, extra=damage.kept(metadata.extra))
    writer = update_index(index, without=damage.segments, flat=True)
    with _searcher(index, metadata, damage) as searcher, open_photos(index, sound) as old_table:
        plan = plan_update(source, searcher, old_table, sound, prune)
        knows_names = old_table.knows_names
    _check_plan(plan, index, source, "photos" in metadata.extra, prune)

    update = _Update(index, source, metadata, damage, plan, model_name, workers, prune)
    sealed = is_sealed(index, sound)
    following = Albums(index).following(plan.moves(source))
    if anew:
        with following:
            return update.encode_anew(started, listed, device, progress, sealed or typed)
    if plan.to_encode or model_name is not None:
        update.open_encoder(device, progress)
    settings = settings_of(metadata.encoder, metadata.topk, metadata.quantization["scheme"])
    journal = Journal(index, settings, source, listed, metadata.vocabulary_size, np.int32, plan.to_encode)
    model = name_to_store(metadata, model_name)
    waits = (
        "captions_left_out" in metadata.extra and has_anserini(),
        model != metadata.extra.get("model"),
        not described.get("mounts", {}).items() <= metadata.extra.get("mounts", {}).items(),
        typed and not (sealed or plan.kept) and can_seal(),
        metadata.postings <= FLAT_POSTINGS and not has_flat(metadata),
        not metadata.lucene_files,
        not knows_names,
    )
    if plan.writes or damage.files or any(waits):
        with following, writing_index(index), writer:
            extra = update.write(writer, journal, {"model": model, "reader": READER, **described})
            if sealed or (typed and not (plan.kept or update.away)):  # what is kept may be made up
                extra = seal_table(extra, writer.folder)
            writer.set_extra(extra, files_beside(writer.folder, extra))
    _clear(index, journal)
    return update.report(started, listed)


def _searcher(index: Path, metadata: IndexMetadata, damage: Damage) -> FlatSearcher | ImpactSearcher:
    """Return a searcher of what is not damaged, without Java if it can."""
    if has_flat(metadata) and not damage.files:
        return FlatSearcher(index)
    from anserini_bridge import ImpactSearcher

    return ImpactSearcher(index, without=damage.segments)


@dataclass
class _Update:
    """An update that is under way.

    Attributes:
        photos: those to encode; None if no model is needed.
        encoded: ids of photos that were encoded.
        lost: ids of changed photos that cannot be read any more.
        away: ids of changed photos that could be opened, but then not read.
    """

    index: Path
    source: Source
    metadata: IndexMetadata
    damage: Damage
    plan: Plan
    model_name: str | None
    workers: int
    prune: bool
    photos: PhotoVectors | None = None
    encoded: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    away: set[str] = field(default_factory=set)

    @property
    def changed(self) -> set[str]:
        """Ids of photos that have changed."""
        return self._ids(self.plan.changes.changed)

    def open_encoder(self, device: str, progress: bool | Progress) -> None:
        """Load the model that made the index."""
        from lexlip.queries.photo_vectors import PhotoVectors
        from lexlip.search.stages.index_model import check_encoder, load_encoder

        check_encoder(self.index, self.metadata, self.model_name)
        self.photos = PhotoVectors(
            load_encoder(self.index, self.metadata, self.model_name, device),
            self.source,
            workers=self.workers,
            progress=progress if callable(progress) else "index" if progress else None,
            indices=self.plan.to_encode,
            facts=True,
        )

    def write(self, writer: ImpactWriter, journal: Journal, extra: dict[str, Any]) -> dict[str, Any]:
        """Write the photos, their table and their captions; return what index.json will say beside."""
        named = read_metadata(self.index).extra
        remove_old_tables(writer.folder, keep=named.get("photos"))
        remove_old_captions(writer.folder, keep=named.get("captions", {}).get("folder"))
        held = self.damage.kept(named)
        with TableWriter(writer.folder, self.index, self.source, held.get("photos")) as table:
            self._write_photos(writer, table, journal)
            if self.damage.has(named.get("photos")):
                for facts in self._facts_again():
                    table.add(facts)
            table.refresh(self.plan.unchanged, self.plan.changes.states)
            table.remember(self.plan.unreadable | (self.photos.unreadable if self.photos else {}))
        if places := [*self.plan.places, *self.away]:
            extra["kept"] = kept_since(places, held)
        if "text" in named:
            extra["text"] = named["text"]
        extra |= mounts_with(places, extra, held)
        return write_caption_index(writer.folder, self.index, {**extra, "photos": table.name}, held)

    def encode_anew(
        self, started: float, listed: float, device: str, progress: bool | Progress, sealed: bool
    ) -> Updated:
        """Make the index anew with the model that is packaged now, as it is to be sealed or not.

        DataError: photos are out of reach, which the new index would lose.
        """
        from lexlip.indexing.impact import index_photos
        from lexlip.queries.photo_encoder import open_encoder

        plan, name = self.plan, self.metadata.extra["model"]
        if plan.kept:
            raise would_lose(f"{plan.places[0] or self.source.name} is out of reach")
        check_model(name)
        encoder: Any = open_encoder(name, device)
        done = index_photos(
            encoder,
            name,
            self.source,
            listed,
            self.index,
            self.metadata.topk,
            self.metadata.quantization["scheme"],
            workers=self.workers,
            progress=progress,
            sealed=sealed,
            complete=self._check_complete,
        )
        skipped = {skip.id for skip in done.skipped}
        new, changed = self._ids(plan.changes.new) - skipped, self.changed - skipped
        moved = set(plan.moves(self.source).values()) - skipped
        added = len(new - moved)
        return Updated(
            **{**vars(done), "seconds": time.perf_counter() - started},
            added=added,
            changed=len(changed - moved),
            deleted=plan.held + added - done.photos,
            unchanged=0,
            moved=len(moved),
            described=plan.described,
            encoded_anew=done.photos - len(new) - len(changed),
            damaged_files=len(self.damage.files),
        )

    def _check_complete(self, photos: PhotoVectors) -> None:
        """Raise DataError if the index made anew lacks photos that may not be gone, or too many."""
        if self.prune:
            return
        new = self._ids(self.plan.changes.new)
        if away := photos.away - new:
            raise would_lose(f"{min(away)} is out of reach")
        lost = {skip.id for skip in photos.skipped} - new
        check_deletions(len(self.plan.deleted) + len(lost), self.plan.held, self.index)

    def _write_photos(self, writer: ImpactWriter, table: TableWriter, journal: Journal) -> None:
        plan = self.plan

        def delete(ids: Iterable[str]) -> None:
            writer.delete(sorted(ids))
            table.delete(ids)

        delete(plan.changes.gone)
        if plan.known:
            writer.upsert([self.source.items[number].id for number in plan.known], plan.vectors)
            table.add((number, facts) for number, (_, facts) in plan.known.items())
        if self.photos is not None and plan.to_encode:
            with journal:
                self.photos.indices = journal.missing
                for ids, rows, facts in journal.all(self.photos, self._impacts(self.photos)):
                    writer.upsert(ids, rows)
                    self.encoded.update(ids)
                    table.add(facts)
            self.away = set() if self.prune else self.photos.away & self.changed
        self.lost = self.changed - self.encoded - self._ids(plan.known) - self.away
        if not self.prune:
            check_deletions(len(plan.deleted) + len(self.lost), plan.held, self.index)
        delete(self.lost)

    def _impacts(self, photos: PhotoVectors) -> Iterator[Impacts]:
        from lexlip.indexing.impact import impacts

        return impacts(photos, self.metadata.topk, self.metadata.quantization["scheme"])

    def _facts_again(self) -> Iterator[list[tuple[int, Facts]]]:
        """Yield the facts about photos that are not encoded, with their index in the source."""
        from lexlip.config import ModelConfig
        from lexlip.config_files import from_dict
        from lexlip.queries.photo_vectors import PhotoPixels
        from lexlip.search.stages.index_model import check_encoder

        name = check_encoder(self.index, self.metadata, self.model_name)
        image = from_dict(ModelConfig, read_description(model_folder(name))["model"], "model.").image
        unchanged = self.plan.unchanged
        photos = PhotoPixels(image, self.source, workers=self.workers, indices=unchanged, facts=True)
        for ids, _ in photos.arrays():
            yield photos.take_facts(ids)

    def report(self, started: float, listed: float) -> Updated:
        """Return what was done; see `lexlip.indexing.report.report`."""
        plan, photos = self.plan, self.photos
        moved = set(plan.moves(self.source).values())
        return report(
            Updated,
            self.index,
            self.source,
            started,
            read_metadata(self.index).postings,
            [*plan.skipped, *(photos.skipped if photos else ())],
            len(plan.to_encode) - len(photos.indices) if photos else 0,
            added=len(self.encoded - self.changed | plan.copies(self.source)),
            changed=len(self.changed - self.lost - self.away - plan.damaged - moved),
            deleted=len(plan.deleted) + len(self.lost),
            unchanged=plan.changes.unchanged,
            moved=len(moved),
            described=plan.described,
            repaired=len(self.encoded & plan.damaged),
            damaged_files=len(self.damage.files),
            kept=plan.kept + len(self.away),
            listed_ahead=max(0.0, self.metadata.extra["listed"] - listed),
        )

    def _ids(self, numbers: Iterable[int]) -> set[str]:
        return {self.source.items[number].id for number in numbers}


def _check_plan(plan: Plan, index: Path, source: Source, has_table: bool, prune: bool) -> None:
    """Raise DataError if the index cannot keep photos that are out of reach, or too many are gone."""
    if plan.places and not has_table:
        raise DataError(
            f"{plan.places[0] or source.name} is out of reach, and an older version made the index {index}:"
            " make it accessible, or give --prune to delete its photos"
        )
    if not prune:
        check_deletions(len(plan.deleted), plan.held, index)


def check_deletions(deleted: int, held: int, index: str | Path) -> None:
    """Raise DataError if an update would delete over a fifth of an index, and at least FEWEST_DELETED photos.

    They may only be out of reach.
    """
    if deleted >= FEWEST_DELETED and deleted > LARGEST_SHARE * held:
        raise DataError(
            f"{deleted} of the {held} photos of {index} are gone, as if a disk were not mounted: nothing was"
            " changed; give --prune to delete them"
        )


def _clear(index: Path, journal: Journal) -> None:
    """Delete what interrupted runs have left beside an index that is complete."""
    if len([*index.glob("data-*"), *index.glob(UNFINISHED)]) > 1:
        with suppress(IndexLocked), writing_index(index), WriterLock(index):
            remove_leftovers(index, keep=read_header(index).directory)
            journal.forget()


def is_made_so(
    index: Path, kind: str, given: Given, model: str | Path, topk_words: int | None, scheme: Scheme | None
) -> bool:
    """Return whether an index of words is of this kind, and was made of these photos, with this model and so.

    One that cannot be read was not; nor was one of an older version, which cannot tell. Only `index.json` is
    read: whether files are damaged, an update finds out.

    Args:
        given: the photos; where they are counts, not how that is written.
        model, topk_words, scheme: see `lexlip.indexing.api.index`; the model is one of words.
    """
    try:
        metadata = read_index_of_words(index)
        check_stored(index, metadata)
        if metadata.kind != kind or "given" not in metadata.extra:
            return False
        if kind == "impact" and "photos" not in metadata.extra:
            return False
        now = {"given": store_given(given, index)}
        check_same_collection(metadata.extra, now, index)
        before = given_again(metadata.extra, index)
        folder = model_folder(model)
        same = read_description(folder).get("identity") == metadata.encoder
        same = same or is_to_renew(metadata, str(model))
    except FixableError:
        return False
    settings = given.split, given.exclude, given.include, topk_words, scheme or scheme_of(folder)
    made_with = metadata.topk, metadata.quantization["scheme"]
    return same and settings == (before.split, before.exclude, before.include, *made_with)


def would_lose(why: str) -> DataError:
    """Return the error to raise if an index is to be made anew and would lose photos."""
    return DataError(
        f"{why}, and all photos are to be encoded anew by the model that is packaged now: nothing was"
        " changed; make them accessible, or give --prune to delete those that are not"
    )


def is_to_renew(metadata: IndexHeader, model: str | None) -> bool:
    """Return whether an index is to be made anew by the packaged model that replaced its own.

    Not if the user names a model at another place, which may be the old one.
    """
    named = model is None or lasting_name(model) == metadata.extra.get("model")
    return named and was_replaced(metadata)


def name_to_store(metadata: IndexHeader, model: str | None) -> str | None:
    """Return how an updated index names its model, given where that is now; None is where it was.

    An index whose packaged model was replaced names that still: then it is updated with the old one, and
    made anew when no model is named.
    """
    before: str | None = metadata.extra.get("model")
    return before if model is None or was_replaced(metadata) else lasting_name(model)


def header_to_update(index: Path) -> IndexHeader:
    """Return what an index of any kind says about itself; DataError: there is none."""
    try:
        header = read_header(index)
    except IndexNotFound:
        raise DataError(f"there is no index {index} to update: index once without --update") from None
    check_stored(index, header)
    return header


def made_with(index: Path, topk_words: int | Literal["all"] | None, scheme: Scheme | None) -> IndexMetadata:
    """Return what an index of words says about itself, if it was made with these settings; None is any."""
    header = header_to_update(index)
    if header.kind == "sharded":
        raise ConfigError(f"{index} is in shards: update it with `lexlip index --update`")
    if header.kind != IndexMetadata.kind:
        raise ConfigError(
            f"the index {index} was made with {header.encoder}, and only an index of words can be updated:"
            " index without --update"
        )
    metadata = read_metadata(index)
    check_stored(index, metadata)
    check_settings(index, metadata, topk_words, scheme)
    return metadata


def check_settings(
    index: Path, metadata: IndexMetadata, topk_words: int | Literal["all"] | None, scheme: Scheme | None
) -> None:
    """Raise ConfigError if an index was made with other settings than the given ones; None is any."""
    for option, was, given in (
        ("--topk", metadata.topk or "all", topk_words),
        ("--quantization", metadata.quantization.get("scheme"), scheme),
    ):
        if given is not None and given != was:
            raise ConfigError(
                f"the index {index} was made with {option} {was}, not {given}: leave {option} out,"
                " or index without --update"
            )
