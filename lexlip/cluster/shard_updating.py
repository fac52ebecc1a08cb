"""Changes an index in shards: makes it match its tars again, and optimizes it.

The shard of a tar that has changed is made anew beside the old one, from what that one knows of photos that
stayed. So a shard is as if its tar had always been so, and searches see all changes at once, or none.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anserini_bridge import (
    CorruptIndex,
    IndexLocked,
    find_jar,
    find_java,
    read_header,
    read_metadata,
    update_index,
)
from anserini_bridge.integrity import LUCENE_FOLDER
from anserini_bridge.storage import METADATA_FILE, UNFINISHED, WriterLock, check_writable
from lexlip.cluster.shard_indexer import checksums, read_record, write_record
from lexlip.cluster.shard_indexing import (
    commit,
    describe_tars,
    find_tars,
    index_shards,
    make_shards,
    misplaced,
    names_of,
    report,
    take_over,
    works_of,
)
from lexlip.data import Given
from lexlip.data.tar_shards import folder_of
from lexlip.errors import ConfigError, DataError, writing_index
from lexlip.indexing import api
from lexlip.indexing.api import Names
from lexlip.indexing.changes import mounts_with, unmounted
from lexlip.indexing.damage import look_for_damage
from lexlip.indexing.report import Indexed, Updated
from lexlip.indexing.update import (
    check_deletions,
    check_settings,
    is_made_so,
    is_to_renew,
    name_to_store,
    would_lose,
)
from lexlip.models.contract import EncodingSettings
from lexlip.models.model_folder import model_folder, read_description
from lexlip.retrieval.collection import check_same_collection, given_again
from lexlip.retrieval.seal import sealed_tables
from lexlip.search.engines.shard import read_sharded
from lexlip.search.stages.index_model import check_encoder
from lexlip.sparse.quantize import Scheme

if TYPE_CHECKING:
    from lexlip.queries.photo_vectors import Progress

OF_CAPTIONS = ("captions", "captions_left_out")


def index_or_update(
    source: str | Path,
    index: str | Path,
    model: str | Path,
    address: str,
    *,
    topk: int | None = 32,
    quantization: Scheme | None = None,
    anew: bool = False,
    prune: bool = False,
    **settings: Any,
) -> Indexed:
    """Index tars on a Ray cluster, or update the index in shards that was made so; `anew`: do not update.

    For the arguments see `index_shards`, and for `prune` `update`.
    """
    if not anew and is_made_so(Path(index), "sharded", Given((str(source),)), model, topk, quantization):
        tars, _ = find_tars(str(source))
        if folder_of(tars) == read_sharded(Path(index)).extra["root"]:
            return update_shards(index, (), model, address=address, prune=prune, typed=True, **settings)
    return index_shards(
        source, index, model, address, topk=topk, quantization=quantization, anew=anew, **settings
    )


def update(
    index: str | Path = ".lexlip",
    source: Names = (),
    model: str | Path | None = None,
    *,
    address: str | None = None,
    topk: int | Literal["all"] | None = None,
    quantization: Scheme | None = None,
    images: str | Path | None = None,
    split: str | None = None,
    exclude: str | Sequence[str] = (),
    include: str | Sequence[str] = (),
    prune: bool = False,
    repair: bool = False,
    text: bool | None = None,
    workers: int = 2,
    device: str = "auto",
    progress: bool | Progress = False,
) -> Updated:
    """Make an index of words match its photos again; open searches see it after `PhotoSearch.refresh`.

    Args:
        index: the index's folder; one in shards is updated shard by shard.
        source, images, split, exclude, include: see `lexlip.index`; by default as the index was made. An
            index in shards has one source, of tars, and takes none of the other four.
        model: where the model is now; None is where it was.
        address: of the Ray cluster that makes shards, see `lexlip.cluster.session.connected`; None is this
            process.
        topk, quantization: None takes those that the index was made with; others are refused. A topk of
            "all" is all words.
        prune: delete photos that are gone, however many they are, or whose place cannot be listed.
        repair: encode again what is damaged; without it a damaged index is refused.
        text: see `lexlip.index`; an index in shards has none.
        workers, device: see `lexlip.index`.
        progress: show a progress bar; or is told how many photos are done, of how many.

    Returns:
        What was done, and which photos were skipped.

    Raises:
        DataError: there is no index, it is of another source, or too many photos are gone.
        ConfigError: the index was made with other settings, or takes no such option; or there is no such
            cluster.
        ModelError: the model that made the index does not exist, or another one is named.
        BridgeError: no Java, or the index cannot be read (see anserini_bridge.errors).
    """
    kind = read_header(index).kind if os.path.isfile(Path(index) / METADATA_FILE) else ""  # noqa: PTH113
    which: dict[str, Any] = {"images": images, "split": split, "exclude": exclude, "include": include}
    which["text"] = text
    settings: dict[str, Any] = {"topk": topk, "quantization": quantization, "prune": prune, "repair": repair}
    settings |= {"workers": workers, "device": device, "progress": progress}
    if kind == "sharded":
        for option, given in which.items():
            if given:
                raise ConfigError(f"--{option} is not for an index in shards: leave it out")
        return update_shards(index, api.names_of(source), model, address=address, **settings)
    if address is not None and kind:
        raise ConfigError(f"--ray updates shards, and {index} has none: leave it out")
    return api.update(index, source, model, **which, **settings)


def update_shards(
    index: str | Path,
    source: Sequence[str] = (),
    model: str | Path | None = None,
    *,
    address: str | None = None,
    topk: int | Literal["all"] | None = None,
    quantization: Scheme | None = None,
    prune: bool = False,
    repair: bool = False,
    workers: int = 2,
    device: str = "auto",
    progress: bool | Progress = False,
    typed: bool = False,
) -> Updated:
    """Make an index in shards match its tars again, in one commit; see `update`.

    An update that fails or is interrupted changes nothing; the next one goes on where it was.

    Args:
        prune: also delete the photos of tars that cannot be read.
        repair: read every file, make damaged shards anew, and the index of captions in any case.
        progress: show a bar; without a cluster, or is told how many photos are done, of how many.
        typed: the user has named the source, also if `source` is nothing; see `commit`.
    """
    started, listed, index = time.perf_counter(), time.time(), Path(index).absolute()
    find_java(), find_jar()
    metadata = read_sharded(index)
    check_settings(index, metadata, topk, quantization)
    model = None if model is None else str(model)
    if anew := is_to_renew(metadata, model):
        name = str(metadata.extra["model"])
        identity = read_description(model_folder(name))["identity"]
    else:
        name, identity = check_encoder(index, metadata, model), metadata.encoder
    sources = tuple(source) or given_again(metadata.extra, index).sources
    if len(sources) != 1:
        raise ConfigError("an index in shards has one SOURCE: a folder of tars, or a pattern in quotes")
    tars, unlisted = find_tars(sources[0])
    root = folder_of(tars)
    described = describe_tars(sources, tars, listed, index)
    check_same_collection(metadata.extra, described, index)
    if root != metadata.extra["root"]:
        raise DataError(
            f"the tars of {index} lay below {metadata.extra['root']}, and now lie below {root}, which changes"
            " the names of all photos: index without --update"
        )
    folders = {shard["tar"]: shard["folder"] for shard in metadata.shards}
    documents = {shard["tar"]: shard["documents"] for shard in metadata.shards}
    with writing_index(index):
        check_writable(index)
        with WriterLock(index):
            if read_sharded(index) != metadata:
                raise IndexLocked(f"another process has just changed the index {index}: update it again")
            data = index / metadata.directory
            damaged = _damaged(index, data) if repair else Counter[str]()
            made_with = identity, metadata.topk, metadata.quantization["scheme"]
            names = names_of(tars, *made_with)
            gone_disks = [] if prune else unmounted(metadata.extra.get("mounts", {}), names, folders)
            unlisted += gone_disks
            away = {} if prune or not unlisted else {tar: folders[tar] for tar in folders.keys() - names}
            if anew and away:
                raise would_lose(f"{min(away)} is out of reach")
            names = dict(sorted((names | away).items())) if away else names
            complete = take_over(index, names, damaged)
            earlier = {tar: str(data / old) for tar, old in folders.items() if old not in damaged}
            new = {tar: shard for tar, shard in names.items() if tar not in complete}
            works = works_of(index, root, new, earlier, whole=not prune)
            settings = EncodingSettings(name, identity, device, *made_with[1:], workers)
            failed = make_shards(works, settings, address, len(names), progress)
            stay = {} if prune else {tar: folders[tar] for tar in failed if tar in folders}
            if anew and stay:
                raise would_lose(failed[min(stay)])
            take_over(index, stay)
            names |= stay
            lost = {tar: reason for tar, reason in failed.items() if tar not in stay}
            there = names.keys() - lost.keys()
            others = [names[tar] for tar in there if not (data / names[tar]).is_dir()]
            made = [record for shard in others if (record := read_record(index / UNFINISHED / shard))]
            deleted = sum(record.deleted for record in made)
            deleted += sum(documents[tar] for tar in folders.keys() - there)
            if not prune:
                check_deletions(deleted, metadata.documents, index)
            model_name = name_to_store(metadata, model)
            mounts = mounts_with({place.id for place in gone_disks}, described, metadata.extra)
            extra = {"model": model_name, **described, **mounts}
            sealed = typed or bool(source or sealed_tables(metadata.extra))
            records = commit(index, names, lost, extra, sealed, anew=repair)
    added, changed, moved = (
        sum(getattr(record, what) for record in made) for what in ("added", "changed", "moved")
    )
    kept = sum(documents[tar] for tar in [*away, *stay])
    repaired = sum(documents[tar] for tar in folders if folders[tar] in damaged and tar not in stay)
    said = report(index, records, failed, unlisted)
    same = said["photos"] - added - changed - moved - kept - repaired
    return Updated(
        **said,
        misplaced=misplaced(made),
        added=added,
        changed=changed,
        deleted=deleted,
        unchanged=0 if anew else same,
        seconds=time.perf_counter() - started,
        resumed=sum(complete[tar].documents for tar in complete if names[tar] not in folders.values()),
        moved=moved,
        repaired=repaired,
        encoded_anew=same if anew else 0,
        damaged_files=damaged.total(),
        kept=kept,
        listed_ahead=max(0.0, metadata.extra["listed"] - listed),
    )


def _damaged(index: Path, data: Path) -> Counter[str]:
    """Return how many files of each shard, and of the captions, are damaged, by their folder."""
    return Counter(file.file.relative_to(data).parts[0] for file in look_for_damage(index).files)


def optimize_shards(index: str | Path, memory_mb: float = 512) -> None:
    """Rewrite each shard of several segments in as few as the memory allows, see `ImpactWriter.optimize`.

    Large tars make several. A shard is rewritten beside the old one, and searches see all changes at once, or
    none; one of one segment stays. What was interrupted changes nothing; the next run goes on where it was.

    Raises:
        CorruptIndex, IndexLocked: a shard is damaged, or another process is writing; nothing was changed.
        BridgeError, OSError: no Java, or the index cannot be read or written.
    """
    index = Path(index).absolute()
    metadata = read_sharded(index)
    check_writable(index)
    with WriterLock(index):
        if read_sharded(index) != metadata:
            raise IndexLocked(f"another process has just changed the index {index}: optimize it again")
        names = {shard["tar"]: shard["folder"] for shard in metadata.shards}
        data, unfinished = index / metadata.directory, index / UNFINISHED
        several = {tar: name for tar, name in names.items() if segments(data / name) > 1}
        if damage := [file for name in several.values() for file in look_for_damage(data / name).files]:
            raise CorruptIndex.at(index, damage)
        if not several:
            return
        records = take_over(index, names)
        for tar, name in several.items():
            if segments(unfinished / name) < segments(data / name):  # of a run that was interrupted
                continue
            part = unfinished / f"{name}.part"
            shutil.rmtree(part, ignore_errors=True)
            (unfinished / name).replace(part)
            with update_index(part, memory_mb, without=()) as writer:  # it was looked for damage already
                writer.optimize()
            write_record(part, replace(records[tar], files=checksums(part)))
            part.replace(unfinished / name)
        extra = {name: value for name, value in metadata.extra.items() if name not in OF_CAPTIONS}
        commit(index, names, {}, extra, bool(sealed_tables(extra)))


def segments(shard: Path) -> int:
    """Return how many segments of Lucene's a shard has."""
    return len(list((shard / read_metadata(shard).directory / LUCENE_FOLDER).glob("*.si")))
