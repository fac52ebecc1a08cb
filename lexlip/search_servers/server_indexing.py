"""Indexes photos into an index on a server, and makes it match its source again.

No index lies on this machine: what the server holds says which photos need not be encoded. Photos are written
as soon as they are encoded, so an interrupted run has lost nothing; those that are gone are deleted last.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from anserini_bridge import IndexMetadata
from anserini_bridge.metadata import vocabulary_hash
from anserini_bridge.sparse_rows import Rows
from lexlip.data import Given, Skipped, Source, Unreadable, open_library
from lexlip.data.facts import Facts
from lexlip.data.images import READER
from lexlip.errors import ConfigError, DataError, ModelError, needing_extras
from lexlip.indexing.changes import Plan, copies_hidden, kept_since, mounts_with, plan_update
from lexlip.indexing.reading import check_reader
from lexlip.indexing.report import Indexed, Updated
from lexlip.indexing.update import check_deletions
from lexlip.machine.device import check_device
from lexlip.models.contract import EncodingSettings
from lexlip.models.model_folder import check_model, kind_of, model_folder, read_description, read_words
from lexlip.other_engines.ask import NoIndex, Unreachable
from lexlip.other_engines.engine_contract import Made
from lexlip.registry import BM25, MODELS
from lexlip.retrieval.collection import describe_collection, given_again
from lexlip.retrieval.photo import Listed
from lexlip.search_servers.photo_documents import (
    MODIFIED,
    NEWEST,
    NO_TEXT,
    About,
    TextFacts,
    documents,
    facts_of,
    key_of,
    metadata_of,
    photo_of,
    text_facts,
)
from lexlip.search_servers.photo_index import Add, PhotoIndex
from lexlip.search_servers.server_albums import ServerAlbums
from lexlip.search_servers.server_photos import ServerPhotos
from lexlip.search_servers.server_texts import forget_texts, read_unread
from lexlip.sparse.balance import scheme_of
from lexlip.sparse.quantize import Scheme, scale_of

if TYPE_CHECKING:
    from lexlip.queries.photo_vectors import Progress

ROOT = Path("/")
"""What paths are relative to that an index in a folder stores relative to itself."""

Take = Callable[[Rows, list[tuple[int, Facts]]], object]
"""Is given photos that are encoded: their rows, and each one's number in the source and facts."""


@dataclass
class Outcome:
    """What became of photos that could not be encoded; see `lexlip.queries.photo_vectors.PhotoPixels`."""

    skipped: list[Skipped]
    unreadable: dict[str, Unreadable]
    away: set[str]

    def add(self, other: Outcome) -> None:
        """Add what became of other photos."""
        self.skipped += other.skipped
        self.unreadable |= other.unreadable
        self.away |= other.away


class Encode(Protocol):
    """Encodes those photos of a source that have some numbers, and gives them to `take`."""

    def __call__(
        self,
        source: Source,
        numbers: Sequence[int],
        take: Take,
        settings: EncodingSettings,
        progress: bool,
    ) -> Outcome: ...


def encode_here(
    source: Source,
    numbers: Sequence[int],
    take: Take,
    settings: EncodingSettings,
    progress: bool,
) -> Outcome:
    """Encode photos in this process, see `Encode`."""
    from lexlip.queries.photo_encoder import open_encoder

    check_model(settings.model)
    encoder = open_encoder(settings.model, settings.device)
    return encode_with(encoder, source, numbers, take, settings, "index" if progress else None)


def encode_with(
    encoder: Any,
    source: Source,
    numbers: Sequence[int],
    take: Take,
    settings: EncodingSettings,
    progress: str | Progress | None,
) -> Outcome:
    """Encode photos with an encoder that is open, see `Encode`."""
    from lexlip.indexing.impact import impacts
    from lexlip.queries.photo_vectors import PhotoVectors

    photos = PhotoVectors(
        encoder, source, workers=settings.workers, progress=progress, indices=numbers, facts=True
    )
    for ids, rows in impacts(photos, settings.topk, settings.scheme):
        take(Rows.of(rows), photos.take_facts(ids))
    return Outcome(photos.skipped, photos.unreadable, photos.away)


@needing_extras()
def index_on_server(
    given: Given,
    address: str,
    model: str = "mini",
    *,
    topk: int | Literal["all"] | None = None,
    quantization: Scheme | None = None,
    update: bool = False,
    prune: bool = False,
    text: bool | None = None,
    workers: int = 2,
    device: str = "auto",
    progress: bool = False,
    tell: Callable[[str], object] | None = None,
    encode: Encode = encode_here,
) -> Indexed:
    """Index photos into an index on a server, which is made if there is none; or update it.

    Args:
        given: the photos; what the server says of them is not followed.
        address: such as "opensearch+https://HOST/INDEX".
        model, topk, quantization: see `lexlip.indexing.api.index`; None is as the index was made, or of a new
            one 32 words, and as the model ranks.
        update: refuse to make an index.
        prune, text, workers, device, progress: see `lexlip.indexing.api.index`.
        tell: see `PhotoIndex`.
        encode: what encodes photos.

    Returns:
        What is in the index; an `Updated` unless this run, or interrupted ones before it, have made it.

    Raises:
        ConfigError: the index was made with another model or other settings, or not by this function; or the
            secret is refused.
        DataError: there are no photos, or none could be read; the server does not answer, or refuses; its
            index is of other photos; too many of them are gone.
        ModelError: there is no such model, or it has no words.
    """
    started = time.perf_counter()
    index = replace(PhotoIndex.at(address, tell), final=(Unreachable,))  # it may be another address
    about, there = _about(index)
    if about is None and update:
        raise DataError(f"there is no index {index} to update: index once without --update")
    index = replace(index, final=())  # the server answers: a node that dies from now on is waited for
    if encode is encode_here:
        check_device(device)
    check_reader(text)
    settings = given, model, topk, quantization
    metadata = _metadata(index, about, *settings)
    listed = time.time()  # before the listing: an update takes a photo that changes from now on
    source = open_library(given)
    damaged = set[str]()
    if about is not None and about.metadata.extra.get("reader") == READER:
        damaged = copies_hidden(source, dict(about.unreadable))
    if damaged:
        source = open_library(given, damaged)
    if about is None:
        index.make(there)
        about = index.begin(About(_of_photos(metadata, source, listed, bool(text)), complete=False))
        metadata = _metadata(index, about, *settings)  # another run may have begun it, in another way
    run = _Run(index, model, metadata, source, listed, about, text, prune, workers, device, progress, encode)
    run.write()
    while found := copies_hidden(run.source, run.unreadable) - damaged:
        damaged |= found
        run.source = open_library(given, damaged)
        run.write()
    return run.finish(started)


def _about(index: PhotoIndex) -> tuple[About | None, bool]:
    """Return what an index says about itself, None if it is to be made; and whether an empty one is there.

    ConfigError: it holds other documents.
    """
    try:
        about = index.about()
    except NoIndex:
        return None, False
    if about is None and not index.is_empty():
        about = index.about()  # another run may have begun it meanwhile
        if about is None:
            raise ConfigError(
                f"{index} is there and was not made by `lexlip index --server`: give the name of a new index"
            )
    return about, True


def _metadata(
    index: PhotoIndex,
    about: About | None,
    given: Given,
    model: str,
    topk: int | Literal["all"] | None,
    quantization: Scheme | None,
) -> IndexMetadata:
    """Return how the index is made; DataError, ConfigError: it was made of other photos, in another way."""
    if about is not None:
        _check_same_photos(index, about.metadata, given)
    kind = kind_of(model)
    if kind == BM25 or kind not in MODELS or not MODELS[kind].words or not MODELS[kind].trained_here:
        raise ModelError(f"words are indexed into a server, and '{model}' is not a model of words")
    folder = model_folder(model)
    identity = read_description(folder)["identity"]
    if about is None:
        words, scheme = read_words(folder / "vocabulary.txt"), quantization or scheme_of(folder)
        number = None if topk == "all" else 32 if topk is None else topk
        how = {"scheme": scheme, "scale": scale_of(scheme)}
        return metadata_of(identity, how, number, (vocabulary_hash(words), len(words)), _now(), {})
    was = about.metadata
    for option, before, now in (
        ("--model", was.encoder, identity),
        ("--topk", was.topk or "all", topk),
        ("--quantization", was.quantization["scheme"], quantization),
    ):
        if now is not None and now != before:
            way_on = "name that model" if option == "--model" else f"leave {option} out"
            raise ConfigError(
                f"{index} was made with {option} {before}, not {now}: {way_on}, or give the name of a new"
                " index"
            )
    return was


def _of_photos(metadata: IndexMetadata, source: Source, listed: float, text: bool) -> IndexMetadata:
    """Return the same of an index of these photos, whose text is read or not."""
    extra = {
        "reader": READER,
        MODIFIED: NEWEST,
        **describe_collection(source, ROOT, listed),
        **({"text": 1} if text else {}),
    }
    return metadata_of(
        metadata.encoder,
        metadata.quantization,
        metadata.topk,
        (metadata.vocabulary, metadata.vocabulary_size),
        _now(),
        extra,
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _check_same_photos(index: PhotoIndex, metadata: IndexMetadata, given: Given) -> None:
    """Raise DataError if an index was made of other photos than these."""
    before = given_again(metadata.extra, ROOT)
    was = [*before.sources, *filter(None, [before.images])]
    now = [*given.sources, *filter(None, [given.images])]
    if [*map(os.path.realpath, was)] != [*map(os.path.realpath, now)]:
        raise DataError(
            f"{index} was made from {' '.join(was)}, not from {' '.join(now)}: give that, or the name of a"
            " new index"
        )


class _Held(ServerPhotos):
    """What an index on a server holds, as `plan_update` asks a searcher and a table for it."""

    def __init__(self, index: PhotoIndex, about: About, progress: bool) -> None:
        super().__init__(index)
        self._about = about
        self.read_texts: dict[str, TextFacts] = {}  # by digest
        self._listed: dict[str, Listed] = {}
        self._paths: dict[str, str] = {}
        with index.understood():
            for id, facts in map(facts_of, index.facts(progress)):
                if (known := text_facts(facts)) != NO_TEXT:
                    self.read_texts[facts["digest"]] = known
                self._listed[id] = Listed(tuple(facts["captions"]), facts["side"], facts["state"])
                self._paths[id] = photo_of(id, facts, self._file(facts)).path

    def ids(self) -> list[str]:
        return list(self._listed)

    def listed(self) -> dict[str, Listed]:
        return self._listed

    def paths(self) -> dict[str, str]:
        return self._paths

    def unreadable(self) -> dict[str, Unreadable]:
        return dict(self._about.unreadable)

    def vectors(self, ids: Sequence[str]) -> Rows:
        return self._index.vectors(ids, self._about.metadata.vocabulary_size)[0]


@dataclass
class _Run:
    """A run of `index_on_server`.

    Attributes:
        about: what the index said about itself before.
        text: whether text in photos is read; None is as before, False forgets it.
        plan: what is done, once it is known.
        held: ids that the index held before.
        outcome: of the last pass; None if no model was needed.
        encoded, changed, moved: ids of photos that were encoded, those that have changed, and former ids of
            those that have another one now.
        lost: ids of changed photos that cannot be read any more.
        away: ids of changed photos that could be opened, but then not read.
        described: how many unchanged photos have other captions.
        texts: what the index knew of the text in photos, by their digests.
    """

    index: PhotoIndex
    model: str
    metadata: IndexMetadata
    source: Source
    listed: float
    about: About
    text: bool | None
    prune: bool
    workers: int
    device: str
    progress: bool
    encode: Encode
    plan: Plan | None = None
    held: set[str] | None = None
    outcome: Outcome | None = None
    encoded: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    moved: set[str] = field(default_factory=set)
    renamed: set[str] = field(default_factory=set)
    copies: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    away: set[str] = field(default_factory=set)
    described: int = 0
    texts: dict[str, TextFacts] = field(default_factory=dict)

    @property
    def reads_text(self) -> bool:
        """Whether the text in photos is read."""
        return "text" in self.about.metadata.extra if self.text is None else self.text

    @property
    def made(self) -> Made:
        return Made(self.metadata.encoder, self.metadata.quantization["scheme"], ())

    @property
    def unreadable(self) -> dict[str, Unreadable]:
        """Photos that cannot be read, by id."""
        assert self.plan is not None
        return self.plan.unreadable | (self.outcome.unreadable if self.outcome else {})

    def write(self) -> None:
        """Write the photos that are new, that have changed, and that have another name or other captions."""
        self.index.refresh()  # of what an interrupted run has written
        held: Any = _Held(self.index, self.about, self.progress)
        self.texts = held.read_texts
        self.plan = plan = plan_update(self.source, held, held, self.about.metadata, self.prune)
        if self.held is None:
            self.held = set(held.ids())
        self._check_deletions(len(plan.deleted - self.moved))
        self.moved |= plan.moved
        if self.about.metadata.extra.get(MODIFIED) != NEWEST:
            self.index.make(there=True)  # before a document has the new field
        self.changed |= self._ids(plan.changes.changed)
        moves = plan.moves(self.source)
        self.renamed.update(moves.values())
        self.copies |= plan.copies(self.source)
        following = ServerAlbums(self.index).following(moves)
        with following, self.index.bulks() as add:
            self._write_known(plan, add)
            self._write_described(plan, held, add)
            if plan.to_encode:
                self._encode(plan, add)

    def _write_known(self, plan: Plan, add: Add) -> None:
        """Write photos whose content the index has, in place of those that have moved."""
        if plan.vectors is None:
            return
        known = [(number, facts) for number, (_, facts) in plan.known.items()]
        written = documents(self.source, Rows.of(plan.vectors), known, self.made, self.texts)
        for action, (before, _) in zip(written, plan.known.values(), strict=True):
            add(action)
            if before in plan.moved:
                add((key_of(before), None))

    def _write_described(self, plan: Plan, held: _Held, add: Add) -> None:
        """Write the captions of photos that have not changed else; in an older index all photos anew."""
        listed = held.listed()
        items = (self.source.items[number] for number in plan.unchanged)
        captions = {item.id: item.captions for item in items if listed[item.id].captions != item.captions}
        self.described += len(captions)
        facts = {id: {"captions": list(texts)} for id, texts in captions.items()}
        if self.about.metadata.extra.get(MODIFIED) != NEWEST:
            others = set(held.ids()) - plan.moved - self._ids(plan.known)
            facts = {id: facts.get(id, {}) for id in sorted(others)}
        self.index.write_facts(facts, add)

    def _encode(self, plan: Plan, add: Add) -> None:
        def take(rows: Rows, photos: list[tuple[int, Facts]]) -> None:
            for action in documents(self.source, rows, photos, self.made, self.texts):
                add(action)
            self.encoded |= self._ids(number for number, _ in photos)

        metadata = self.metadata
        scheme = metadata.quantization["scheme"]
        settings = EncodingSettings(
            self.model, metadata.encoder, self.device, metadata.topk, scheme, self.workers
        )
        self.outcome = self.encode(self.source, plan.to_encode, take, settings, self.progress)
        if len(self.outcome.skipped) == len(self.source):
            from lexlip.queries.photo_vectors import none_read

            raise none_read(self.source, len(plan.to_encode), self.outcome.skipped)
        self.away = set() if self.prune else self.outcome.away & self.changed

    def _check_deletions(self, number: int) -> None:
        assert self.plan is not None
        if not self.prune:
            check_deletions(number, self.plan.held, str(self.index))

    def finish(self, started: float) -> Indexed:
        """Delete the photos that are gone, and say what the index is now; return what was done."""
        plan, before = self.plan, self.about
        assert plan is not None
        assert self.held is not None
        self.lost = self.changed - self.encoded - self._ids(plan.known) - self.away
        self.lost &= self._ids(plan.changes.changed)
        gone = plan.deleted - self.moved
        self._check_deletions(len(gone) + len(self.lost))
        deleted = sorted(gone | self.lost)
        with self.index.bulks() as add:
            for id in deleted:
                add((key_of(id), None))
        self.index.refresh()
        metadata = _of_photos(self.metadata, self.source, self.listed, self.reads_text)
        if places := [*plan.places, *self.away]:
            metadata.extra["kept"] = kept_since(places, before.metadata.extra)
        metadata.extra.update(mounts_with(places, metadata.extra, before.metadata.extra))
        now = About(metadata, complete=True, unreadable=self.unreadable)
        if plan.writes or self.encoded or self.moved or _said(now) != _said(before):
            self.index.say(now)
        if self.text is False and self.texts:
            forget_texts(self.index)
        of_text = {}
        if self.reads_text:
            of_text = read_unread(self.index, self.source, self.workers, self.progress)
        return self._report(started, len(deleted), of_text)

    def _report(self, started: float, deleted: int, of_text: Mapping[str, int]) -> Indexed:
        plan, outcome = self.plan, self.outcome
        assert plan is not None
        assert self.held is not None
        done: dict[str, Any] = {
            "index": str(self.index),
            "photos": self.index.count(),
            "postings": None,
            "megabytes": self.index.megabytes(),
            "seconds": time.perf_counter() - started,
            "skipped": [*self.source.skipped, *plan.skipped, *(outcome.skipped if outcome else ())],
            "unlisted": list(self.source.unlisted),
            "files": self.source.files(),
            "misplaced": list(self.source.misplaced),
            **of_text,
        }
        if not self.about.complete:
            return Indexed(**done, resumed=len(self.held - self.encoded) - deleted)
        return Updated(
            **done,
            added=len(self.encoded - self.held | self.copies),
            changed=len(self.changed - self.lost - self.away - self.renamed),
            deleted=deleted,
            unchanged=len((self._ids(plan.unchanged) & self.held) - self.changed),
            moved=len(self.renamed),
            described=self.described,
            kept=plan.kept + len(self.away),
            listed_ahead=max(0.0, self.about.metadata.extra["listed"] - self.listed),
        )

    def _ids(self, numbers: Iterable[int]) -> set[str]:
        return {self.source.items[number].id for number in numbers}


def _said(about: About) -> tuple[Any, ...]:
    """Return what an index says about itself that runs without changes keep."""
    extra = {name: value for name, value in about.metadata.extra.items() if name != "listed"}
    return about.complete, about.unreadable, extra
