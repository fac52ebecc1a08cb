"""Rewrites the shards of an index that have several segments, as those of large tars do.

A shard is rewritten beside the old one. Searches see all changes at once, or none.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from anserini_bridge import CorruptIndex, IndexLocked, read_metadata, update_index
from anserini_bridge.integrity import LUCENE_FOLDER
from anserini_bridge.storage import UNFINISHED, WriterLock, check_writable
from lexlip.cluster.shard_indexer import checksums, write_record
from lexlip.cluster.shard_indexing import commit, take_over
from lexlip.indexing.damage import look_for_damage
from lexlip.retrieval.seal import sealed_tables
from lexlip.search.engines.shard import read_sharded

OF_CAPTIONS = ("captions", "captions_left_out")


def optimize_shards(index: str | Path, memory_mb: float = 512) -> None:
    """Rewrite each shard of several segments in as few as the memory allows, see `ImpactWriter.optimize`.

    A shard of one segment stays as it is, and so does an index that has no others. What was interrupted
    changes nothing; the next run goes on where it was.

    Args:
        index: the index's folder.
        memory_mb: see `ImpactWriter`.

    Raises:
        CorruptIndex: a shard is damaged; nothing was changed.
        IndexLocked: another process is writing to the index.
        BridgeError: no Java, or the index cannot be read (see anserini_bridge.errors).
        OSError: the folder cannot be written.
    """
    index = Path(index).absolute()
    metadata = read_sharded(index)
    check_writable(index)
    with WriterLock(index):
        if read_sharded(index) != metadata:
            raise IndexLocked(f"another process has just changed the index {index}: optimize it again")
        names = [shard["folder"] for shard in metadata.shards]
        data, unfinished = index / metadata.directory, index / UNFINISHED
        several = [name for name in names if segments(data / name) > 1]
        if damage := [file for name in several for file in look_for_damage(data / name).files]:
            raise CorruptIndex.at(index, damage)
        if not several:
            return
        records = dict(zip(names, take_over(index, names).values(), strict=True))
        for name in several:
            if segments(unfinished / name) < segments(data / name):  # of a run that was interrupted
                continue
            part = unfinished / f"{name}.part"
            shutil.rmtree(part, ignore_errors=True)
            (unfinished / name).replace(part)
            with update_index(part, memory_mb, without=()) as writer:  # it was looked for damage already
                writer.optimize()
            write_record(part, replace(records[name], files=checksums(part)))
            part.replace(unfinished / name)
        extra = {name: value for name, value in metadata.extra.items() if name not in OF_CAPTIONS}
        sealed = bool(sealed_tables(extra))
        commit(index, names, [shard["tar"] for shard in metadata.shards], {}, extra, sealed)


def segments(shard: Path) -> int:
    """Return how many segments of Lucene's a shard has."""
    return len(list((shard / read_metadata(shard).directory / LUCENE_FOLDER).glob("*.si")))
