"""Lists many tars: from the cache, and by several processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

import numpy as np

from lexlip.data import tar_cache
from lexlip.data.files import reason_of
from lexlip.data.images import UnreadableImage
from lexlip.data.source import Skipped
from lexlip.data.tar_shard import Shard, list_shard
from lexlip.errors import DataError
from lexlip.machine.processes import worker_context
from lexlip.machine.progress import ProgressBar
from lexlip.machine.resources import cores

T = TypeVar("T")
LITTLE = 1 << 28  # bytes of tars for which starting processes costs more than it saves


def list_shards(paths: Sequence[str]) -> list[Shard]:
    """Return the photos of each tar; one that cannot be read has none, and says why in `skipped`.

    Raises:
        DataError: a process that lists tars was killed.
    """
    shards = {path: tar_cache.load(path) for path in _bar(paths, "reading lists of tars")}
    missing = [path for path, shard in shards.items() if shard is None]
    shards.update(zip(missing, _bar(_list(missing), "listing tars", len(missing)), strict=True))
    return [shard for path in paths if (shard := shards[path]) is not None]


def _list(paths: Sequence[str]) -> Iterator[Shard]:
    workers = min(cores(), len(paths))
    # daemons, such as the workers of a DataLoader, must not start processes
    if workers < 2 or multiprocessing.current_process().daemon or sum(map(_size, paths)) < LITTLE:
        yield from map(_list_and_keep, paths)
        return
    pool = ProcessPoolExecutor(workers, worker_context(), signal.signal, (signal.SIGINT, signal.SIG_IGN))
    try:
        yield from pool.map(_list_and_keep, paths)
    except BrokenProcessPool as error:
        raise DataError(
            "a process that listed tars was killed, or could not start: is there enough memory?"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _list_and_keep(path: str) -> Shard:
    try:
        key = tar_cache.key(path)  # before the listing: a tar that grows meanwhile is listed again
        shard = list_shard(path)
    except (OSError, UnreadableImage) as error:
        why = error.reason if isinstance(error, UnreadableImage) else reason_of(error)
        nothing = np.empty(0, dtype=np.int64)
        return Shard(b"", nothing, nothing, nothing, [Skipped("", why)])
    tar_cache.save(path, key, shard)
    return shard


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return 0


def _bar(tars: Iterable[T], text: str, total: int | None = None) -> Iterable[T]:
    """Show a progress bar on stderr, if the work takes more than two seconds."""
    return ProgressBar(tars, text, total, unit="tar", delay=2)
