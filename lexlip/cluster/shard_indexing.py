"""Indexes tars on a cluster: one shard a tar, and `index.json` for the whole.

DIR/unfinished/ holds the shards of a run until all are complete; then they move to DIR/data-<n>/, and
`index.json` names them. A shard's folder is named after all that it depends on, so a later run takes over
what is there already. The data folder before stays for those who still search it; shards that are in both
take their space once.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anserini_bridge import BridgeError, folder_megabytes, read_header, read_metadata, write_metadata
from anserini_bridge.jvm import has_anserini
from anserini_bridge.storage import UNFINISHED, WriterLock, check_writable, next_data_folder, remove_leftovers
from lexlip.cluster.session import connected
from lexlip.cluster.shard_indexer import ShardIndexer, ShardRecord, ShardWork, read_record
from lexlip.cluster.shard_queue import ShardQueue
from lexlip.data import Given, Skipped, Unlisted
from lexlip.data.files import mount_points, path_of, state_of
from lexlip.data.folder import walk
from lexlip.data.tar_shards import folder_of, match_tars
from lexlip.errors import ConfigError, DataError, FixableError, writing_index
from lexlip.indexing.bm25 import write_texts
from lexlip.indexing.report import Indexed
from lexlip.machine.progress import ProgressBar
from lexlip.models.contract import EncodingSettings
from lexlip.models.model_folder import keep_checkpoint, kind_of, lasting_name, model_folder, read_description
from lexlip.registry import MODELS
from lexlip.retrieval.collection import store_given
from lexlip.retrieval.photo_table import open_photos
from lexlip.retrieval.seal import seal, table_checksum, why_unsealed
from lexlip.search.cursors import digest
from lexlip.search.engines.shard import ShardedMetadata, ShardEntry, read_sharded
from lexlip.sparse.balance import scheme_of
from lexlip.sparse.quantize import Scheme

if TYPE_CHECKING:
    from lexlip.queries.photo_vectors import Progress


def index_shards(
    source: str | Path,
    index: str | Path,
    model: str | Path,
    address: str,
    *,
    topk: int | None = 32,
    quantization: Scheme | None = None,
    anew: bool = False,
    workers: int = 2,
    device: str = "auto",
    progress: bool = False,
) -> Indexed:
    """Index tars on a Ray cluster; an index that exists already answers until the new one is complete.

    All machines must see the tars and the index's folder at the same place.

    Args:
        source: a tar, a pattern of tars, or a folder of them.
        index, topk, quantization, workers, device, progress: see `lexlip.indexing.api.index`.
        model: packaged name or folder of a model of words.
        address: of the cluster, see `lexlip.cluster.session.connected`.
        anew: take over no shard that is complete already.

    Returns:
        What was done. Tars that could not be indexed are among `unlisted`; the next run tries them again.

    Raises:
        ConfigError: there is no such cluster, or the model is not one of words.
        ModelError: there is no such model.
        DataError: there are no tars, none could be indexed, or the folder cannot be written.
        BridgeError: the folder is not an index (see anserini_bridge.errors).
    """
    started, listed = time.perf_counter(), time.time()
    kind = kind_of(model)
    if kind not in MODELS or not MODELS[kind].words:
        raise ConfigError(f"--ray indexes with models of words, and '{model}' is not one: leave --ray out")
    folder = model_folder(model)
    identity = read_description(folder)["identity"]
    scheme = quantization or scheme_of(folder)
    keep_checkpoint(model)
    name, index = lasting_name(str(model)), Path(index).absolute()
    tars, _ = find_tars(str(source))
    root = folder_of(tars)
    with writing_index(index):
        check_writable(index)
        with WriterLock(index):
            names = names_of(tars, identity, topk, scheme)
            before = take_over(index, names, set(names.values()) if anew else ())
            works = works_of(index, root, {tar: name for tar, name in names.items() if tar not in before})
            settings = EncodingSettings(name, identity, device, topk, scheme, workers)
            failed = make_shards(works, settings, address, len(tars), progress)
            extra = {"model": name, **describe_tars((str(source),), tars, listed, index)}
            records = commit(index, names, failed, extra, True, anew)
    return Indexed(
        **report(index, records, failed),
        misplaced=misplaced(records),
        seconds=time.perf_counter() - started,
        resumed=sum(record.documents for record in before.values()),
    )


def works_of(
    index: Path,
    root: str,
    names: Mapping[str, str],
    earlier: Mapping[str, str] | None = None,
    whole: bool = False,
) -> dict[str, ShardWork]:
    """Return the work on shards in UNFINISHED, by the tar's path below a root; see `ShardWork`."""
    works = {}
    for tar, name in names.items():
        place, before = Path(root, tar), (earlier or {}).get(tar, "")
        folder = str(index / UNFINISHED / name)
        works[tar] = ShardWork(f"{root}/{tar}", root, place.stat().st_size, folder, before, whole)
    return works


def report(
    index: Path, records: Iterable[ShardRecord], failed: Mapping[str, str], unlisted: Iterable[Unlisted] = ()
) -> dict[str, Any]:
    """Return what an `Indexed` says about an index as it is now, and about the work on its shards."""
    records, extra = list(records), read_header(index).extra
    return {
        "index": str(index),
        "photos": sum(record.documents for record in records),
        "postings": sum(record.postings for record in records),
        "megabytes": megabytes_of(index),
        "skipped": [Skipped(*skip) for record in records for skip in record.skipped],
        "unlisted": [
            *unlisted,
            *(Unlisted(*place) for record in records for place in record.unlisted),
            *(Unlisted(tar, reason) for tar, reason in failed.items()),
        ],
        "captions_left_out": extra.get("captions_left_out", 0),
        "unsealed": why_unsealed(extra),
    }


def misplaced(records: Iterable[ShardRecord]) -> list[str]:
    """Return the photos whose place cannot be, of shards that were made."""
    return [id for record in records for id in record.misplaced]


def make_shards(
    works: Mapping[str, ShardWork],
    settings: EncodingSettings,
    address: str | None,
    total: int,
    progress: bool | Progress,
) -> dict[str, str]:
    """Make shards; return the reasons of those that failed, by tar.

    Args:
        works, settings: which, by tar, and how.
        address: of the cluster that makes them; None: this process does, one after another.
        total: shards of the whole index, for the progress bar.
        progress: show one; or, in this process, is told how many photos are done, of how many.
    """
    if not works:
        return {}
    if address is not None:
        with connected(address):
            queue = ShardQueue(settings, total, bool(progress))
            reasons = queue.run(list(works.values()))
        tars = list(works)
        return {tars[number]: reason for number, reason in reasons.items()}
    tell = progress if callable(progress) else None
    indexer = ShardIndexer(settings, None, tell)
    indexer.open()
    failed: dict[str, str] = {}
    hide = not progress or tell is not None
    begun = total - len(works)
    for tar, work in ProgressBar(
        works.items(), "index", total, unit="shard", initial=begun, disable=hide, delay=1
    ):
        try:
            indexer.index(work)
        except FixableError as error:
            failed[tar] = str(error)
    return failed


def describe_tars(
    sources: tuple[str, ...], tars: Sequence[Path], listed: float, index: Path
) -> dict[str, Any]:
    """Return what an index in shards stores about its tars; see `describe_collection`."""
    root = folder_of(tars)
    named: dict[str, Any] = {"given": store_given(Given(sources), index)}
    if mounts := mount_points((os.path.relpath(tar, root), str(tar)) for tar in tars):
        named["mounts"] = mounts
    return {"listed": listed, "root": root, "relative": False, **named}


def megabytes_of(index: Path) -> float:
    """Return the size of an index in shards, in MB, without its former state."""
    return folder_megabytes(index / read_sharded(index).directory)


def find_tars(source: str) -> tuple[list[Path], list[Unlisted]]:
    """Return the tars that a user names, absolute paths, and the folders that could not be listed."""
    path = path_of(source)
    if path.is_file() and path.suffix.lower() == ".tar":
        return [path.absolute()], []
    if path.is_dir():
        listing = walk(path, None)
        if listing.photos or not listing.tars:
            what = "photos outside tars" if listing.photos else "no tars"
            raise DataError(
                f"{source} holds {what}, and --ray indexes tars: pack the photos, or leave --ray out"
            )
        return [(path / tar).absolute() for tar in listing.tars], listing.unlisted
    if path.exists():
        raise DataError(f"{source} is no tar, no pattern of tars and no folder of them: leave --ray out")
    return [tar.absolute() for tar in match_tars(str(path))], []


def names_of(tars: Sequence[Path], identity: str, topk: int | None, scheme: str) -> dict[str, str]:
    """Return the folders of tars' shards, by the tar's path below the folder of all.

    A name changes with all that a shard depends on.
    """
    root, names = folder_of(tars), {}
    for tar in tars:
        below = os.path.relpath(tar, root)
        names[below] = f"shard-{digest(1, below, root, str(state_of(tar)), identity, topk, scheme)}"
    return names


def take_over(index: Path, names: Mapping[str, str], damaged: Container[str] = ()) -> dict[str, ShardRecord]:
    """Put the complete shards of earlier runs into UNFINISHED, but for damaged ones; return them by tar."""
    unfinished = index / UNFINISHED
    if unfinished.exists() and not _of_shards(unfinished):
        shutil.rmtree(unfinished)  # of an index of one machine
    present, found = _present(index), dict[str, ShardRecord]()
    # that in use before the former one, whose shards may be damaged
    folders = [unfinished, *([index / present.directory] if present else []), *index.glob("data-*")]
    for tar, name in names.items():
        if name in damaged:
            shutil.rmtree(unfinished / name, ignore_errors=True)
            continue
        for folder in folders:
            record = read_record(folder / name)
            if record is None:
                continue
            if folder != unfinished:
                part = unfinished / f"{name}.part"
                shutil.rmtree(part, ignore_errors=True)
                shutil.rmtree(unfinished / name, ignore_errors=True)
                shutil.copytree(folder / name, part, copy_function=_link)
                part.replace(unfinished / name)
            found[tar] = record
            break
    return found


def _captions(shards: Sequence[Path]) -> tuple[list[str], list[str]]:
    """Return the ids of the photos of all shards that have captions or keywords, in order, and these."""
    found: list[tuple[str, str]] = []
    for folder in shards:
        with open_photos(folder, read_metadata(folder)) as table:
            found += zip(*table.texts(), strict=True)
    found.sort()
    return [id for id, _ in found], [text for _, text in found]


def _tables_of_tars(folder: Path, shards: Sequence[ShardEntry], root: str) -> dict[str, str]:
    """Return the checksums of tables of photos, by shard, of those that name no file but the shard's tar."""
    sums = {}
    for shard in shards:
        place = folder / shard["folder"]
        with open_photos(place, read_metadata(place)) as table:
            if table.files() == {f"{root}/{shard['tar']}"}:
                sums[shard["folder"]] = table_checksum(table.file)
    return sums


def _as_before(now: ShardedMetadata | None, metadata: ShardedMetadata, captions: bool) -> bool:
    """Return whether the index is already as it is to be; with captions, if any can be indexed."""
    if now is None or (captions and has_anserini() and "captions" not in now.extra):
        return False
    where = ("model", "given", "root", "seal")
    same = all(now.extra.get(name) == metadata.extra.get(name) for name in where)
    return same and (now.shards, now.files) == (metadata.shards, metadata.files)


def _present(index: Path) -> ShardedMetadata | None:
    """Return what the index in shards says of itself; None: there is none."""
    try:
        return read_sharded(index)
    except BridgeError:
        return None


def _of_shards(unfinished: Path) -> bool:
    return all(entry.name.startswith("shard-") for entry in unfinished.iterdir())


def _link(file: str, link: str) -> None:
    """Give a file that never changes a second name; copy it where that is impossible."""
    try:
        os.link(file, link)
    except OSError:
        shutil.copy2(file, link)


def commit(
    index: Path,
    names: Mapping[str, str],
    failed: Mapping[str, str],
    extra: dict[str, Any],
    sealed: bool,
    anew: bool = False,
) -> list[ShardRecord]:
    """Make the complete shards the index; return what they hold.

    Args:
        index: the index's folder.
        names: of the shards, by tar, in order.
        failed: why, by the tars whose shards are not there.
        extra: see `ShardedMetadata`.
        sealed: whether this user has named the source, now or when the index was made.
        anew: also if nothing has changed, and the captions too.
    """
    unfinished = index / UNFINISHED
    records: list[ShardRecord] = []
    shards: list[ShardEntry] = []
    files: dict[str, str] = {}
    for tar, name in names.items():
        if tar in failed:
            continue
        record = read_record(unfinished / name)
        if record is None:
            raise DataError(
                f"{index} is not the same folder on all machines: {tar} was indexed, and is not there;"
                " give a folder that all of them see"
            )
        records.append(record)
        if record.documents:
            shards.append({"folder": name, "tar": tar, "documents": record.documents})
            files |= {f"{name}/{file}": sum for file, sum in record.files.items()}
    if not shards:
        tar, reason = next(iter(failed.items()), (next(iter(names)), "it holds no photos"))
        raise DataError(f"no tar could be indexed ({len(names)} tried; {tar}: {reason})")
    if sealed:
        extra = seal(extra, _tables_of_tars(unfinished, shards, extra["root"]))
    one, data = read_metadata(unfinished / shards[0]["folder"]), next_data_folder(index)
    metadata = ShardedMetadata(
        directory=data,
        documents=sum(record.documents for record in records),
        encoder=one.encoder,
        extra=dict(extra),
        files=files,
        lucene_version=one.lucene_version,
        vocabulary=one.vocabulary,
        vocabulary_size=one.vocabulary_size,
        quantization=one.quantization,
        topk=one.topk,
        normalize=one.normalize,
        postings=sum(record.postings for record in records),
        shards=shards,
    )
    ids, texts = _captions([unfinished / shard["folder"] for shard in shards])
    before = _present(index)
    if not anew and _as_before(before, metadata, bool(ids)):  # servers may have it open
        shutil.rmtree(unfinished, ignore_errors=True)
        return records
    (index / data).mkdir()
    for tar, name in names.items():
        if tar not in failed:
            (unfinished / name).replace(index / data / name)
    write_metadata(index, replace(metadata, extra={**extra, **write_texts(index / data, ids, texts)}))
    remove_leftovers(index, data, *([before.directory] if before else []))
    if not failed:
        shutil.rmtree(unfinished)
    return records
