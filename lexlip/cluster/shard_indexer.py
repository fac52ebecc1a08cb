"""Indexes tars on one machine of a cluster, one after another; the model is loaded once."""

from __future__ import annotations

import json
import os
import socket
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anserini_bridge import read_metadata
from anserini_bridge.given_files import read_json
from anserini_bridge.storage import LOCK_FILE, atomic_write, checksum
from lexlip.errors import DataError, ModelError
from lexlip.indexing.damage import look_for_damage
from lexlip.retrieval.photo_table import open_photos

if TYPE_CHECKING:
    from lexlip.models.contract import EncodingSettings
    from lexlip.queries.photo_vectors import Progress


RECORD = "shard.json"
_NOT_SENT = (LOCK_FILE, "write.lock", RECORD)  # ours and Lucene's lock, which are empty


class ShardWork(NamedTuple):
    """A shard to be made; paths are absolute."""

    tar: str
    root: str  # the folder that ids are relative to
    size: int  # bytes of the tar
    folder: str
    earlier: str = ""  # folder of the shard that the tar had before it, or the model, changed
    whole: bool = False  # refuse a tar of which a part cannot be listed


@dataclass(frozen=True, kw_only=True)
class ShardRecord:
    """What was made; the shard's folder holds it as RECORD, once everything else there is complete."""

    documents: int = 0  # in the index; without photos there is none
    postings: int = 0
    skipped: list[list[str]]  # see `lexlip.indexing.report.Indexed`, as `unlisted` and `misplaced`
    unlisted: list[list[Any]]
    misplaced: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)  # checksums, by path in the shard's folder
    # photos, compared with the earlier shard if there is one
    added: int = 0
    changed: int = 0
    deleted: int = 0
    moved: int = 0


def read_record(folder: Path) -> ShardRecord | None:
    """Return what a folder holds as a complete shard; None: it holds none."""
    try:
        return ShardRecord(**read_json(folder / RECORD))
    except (OSError, ValueError, TypeError):
        return None


def write_record(folder: Path, record: ShardRecord) -> None:
    """Put into a folder what it holds as a complete shard."""
    with atomic_write(folder / RECORD) as file:
        json.dump(asdict(record), file)


def checksums(folder: Path) -> dict[str, str]:
    """Return the checksums of a shard's files, by path in its folder."""
    named = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in _NOT_SENT)
    return {str(path.relative_to(folder)): checksum(path) for path in named}


class ModelActor:
    """An actor of Ray with a model; its methods run in threads, of which so many encode.

    `threads` is None for a GPU, or for all cores.
    """

    def __init__(self, settings: EncodingSettings, threads: int | None = None) -> None:
        if threads is not None:
            os.environ["LEXLIP_CORES"] = str(threads)  # others of this machine's cores have actors too
        self._settings = settings
        self._encoder: Any = None
        self._done = 0

    def open(self) -> None:
        """Load the model, which every other call but `done` needs."""
        from lexlip.models.model_folder import check_model
        from lexlip.queries.photo_encoder import open_encoder

        model, identity = self._settings.model, self._settings.identity
        check_model(model)
        encoder: Any = open_encoder(model, self._settings.device)
        if encoder.identity != identity:
            here = f"{model} is {encoder.identity} on {socket.gethostname()}"
            raise ModelError(
                f"{here}, and {identity} where the command runs: install the same on all machines"
            )
        self._encoder = encoder

    def done(self) -> int:
        """Return how many photos this actor has encoded."""
        return self._done


class ShardIndexer(ModelActor):
    """An actor that makes shards."""

    def __init__(
        self, settings: EncodingSettings, threads: int | None = None, tell: Progress | None = None
    ) -> None:
        super().__init__(settings, threads)
        self._tell = tell

    def index(self, work: ShardWork) -> ShardRecord:
        """Make a shard; the error names this machine if it does not see the tar as it is elsewhere."""
        from lexlip.data.source import Given
        from lexlip.data.tar_shards import WebDatasetSource
        from lexlip.indexing.impact import index_photos

        listed, before = time.time(), self._done
        tar = Path(work.tar)
        if not tar.is_file() or tar.stat().st_size != work.size:
            raise DataError(f"{socket.gethostname()} does not see {tar} as it is where the command runs")
        source = WebDatasetSource([tar], str(tar), may_be_empty=True, root=work.root)
        if source.unlisted and (work.whole or not source.items):
            raise DataError(f"{tar} cannot be read: {source.unlisted[0].reason}")
        earlier = Path(work.earlier) if work.earlier else None
        known = earlier if earlier and read_metadata(earlier).encoder == self._settings.identity else None
        if known is not None:
            look_for_damage(known).refuse()
        if not source.items:
            Path(work.folder).mkdir(parents=True, exist_ok=True)
            record = ShardRecord(skipped=_lists(source.skipped), unlisted=[], **_compare(None, earlier))
            write_record(Path(work.folder), record)
            return record
        source.given = Given((str(tar),))

        def count(done: int, total: int) -> None:
            self._done = before + done
            if self._tell is not None:
                self._tell(self._done, before + total)

        done = index_photos(
            self._encoder,
            self._settings.model,
            source,
            listed,
            work.folder,
            self._settings.topk,
            self._settings.scheme,
            workers=self._settings.workers,
            progress=count,
            of_more=True,
            earlier=known,
        )
        folder = Path(work.folder)
        record = ShardRecord(
            documents=done.photos,
            postings=done.postings or 0,
            skipped=_lists(done.skipped),
            unlisted=_lists(done.unlisted),
            misplaced=done.misplaced,
            files=checksums(folder),
            **_compare(folder, earlier),
        )
        write_record(folder, record)
        return record


def _compare(folder: Path | None, earlier: Path | None) -> dict[str, Any]:
    """Return how many photos were added, changed, deleted and moved from one shard to another."""
    now, was = _digests(folder), _digests(earlier)
    added, gone = now.keys() - was.keys(), was.keys() - now.keys()
    moved = (Counter(now[id] for id in added) & Counter(was[id] for id in gone)).total()
    changed = sum(now[id] != was[id] for id in now.keys() & was.keys())
    return {"added": len(added) - moved, "changed": changed, "deleted": len(gone) - moved, "moved": moved}


def _digests(folder: Path | None) -> dict[str, str]:
    if folder is None:
        return {}
    with open_photos(folder, read_metadata(folder)) as table:
        return table.digests()


def _lists(named: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(one) for one in named]
