"""One replica of a shard: an actor with a JVM of its own, and how it comes by the shard's files.

A shard never changes; the shard of a tar that has changed is another version. A replica opens a version when
it is told to, beside those that are searched, and every call says which version it is for. So no answer mixes
two of them, whatever dies meanwhile.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from anserini_bridge import BridgeError, start_jvm
from anserini_bridge.storage import METADATA_FILE, replace_folder
from lexlip.errors import DataError, FixableError, writing
from lexlip.search.engines.shard import OpenShard, wrong_files

PIECE = 1 << 26  # bytes of a file that are sent at a time
SMALL_GARBAGE = "-XX:MaxNewSize=64m"  # Java collects its garbage early, instead of growing for hours


class ShardPlace(NamedTuple):
    """Where a shard lies.

    Attributes:
        files: checksums of its files, by path in the folder.
        version: tells it from every other shard and every other state of it.
        of_index: stands for the index, so that two indexes' copies are kept apart.
    """

    folder: str
    files: dict[str, str]
    version: str
    of_index: str


class FileGiver:
    """An actor on the machine where the server runs: it reads the files of shards for the replicas."""

    def read(self, file: str, start: int) -> bytes:
        """Return up to PIECE bytes of a file, or raise DataError."""
        with _reading(file), Path(file).open("rb") as opened:
            opened.seek(start)
            return opened.read(PIECE)


class NotOpen(NamedTuple):
    """The answer of a replica that does not have a version open, as it was started anew."""

    version: str


class Replica:
    """An actor of Ray that answers for a shard, one call at a time, while it may open another version.

    Args:
        giver: a `FileGiver` from which shards are copied to this machine's disk, into
            $XDG_CACHE_HOME/lexlip/served; None opens them where they lie.
    """

    def __init__(self, giver: Any = None) -> None:
        self._giver = giver
        self._open: dict[str, OpenShard] = {}
        start_jvm([SMALL_GARBAGE])

    def open(self, place: ShardPlace) -> tuple[str, int]:
        """Open a version, if it is not open yet; return the machine and the process.

        Raises:
            DataError, BridgeError: this machine does not see the shard, or cannot read, copy or open it.
        """
        import ray

        if place.version not in self._open:
            folder = Path(place.folder) if self._giver is None else copied(place, self._giver)
            with _reading(folder):
                if not (folder / METADATA_FILE).is_file():
                    raise DataError(
                        f"{socket.gethostname()} does not see {folder}: put the index where all machines see"
                        " it, or give --copy"
                    )
                self._open[place.version] = OpenShard(folder, place.files[METADATA_FILE])
        return ray.get_runtime_context().get_node_id(), os.getpid()

    def keep(self, versions: Collection[str]) -> None:
        """Close all other versions."""
        for version in self._open.keys() - set(versions):
            self._open.pop(version).close()

    def call(self, version: str, method: str, *arguments: Any) -> Any:
        """Return what `OpenShard.ask` returns, or the error for the user that it raised."""
        shard = self._open.get(version)
        if shard is None:
            return NotOpen(version)
        try:
            return shard.ask(method, *arguments)
        except FixableError as error:
            return error


@contextmanager
def _reading(what: str | Path) -> Iterator[None]:
    """Turn an error of the operating system into one sentence, which names this machine."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{socket.gethostname()} cannot read {what}: {error.strerror or error}") from error


def copied(place: ShardPlace, giver: Any) -> Path:
    """Return the folder of this machine's own copy of a shard, which is made or renewed if it must be.

    Raises:
        DataError: it cannot be written here, or not be read where it lies; nothing of it is left here.
        BridgeError: what arrived is not what was indexed.
    """
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "lexlip" / "served"
    folder = home / place.of_index / place.version
    if not wrong_files(folder, place.files):
        return folder
    temporary = folder.with_name(f"{folder.name}.{os.getpid()}")  # another replica may copy it too
    shutil.rmtree(temporary, ignore_errors=True)
    elsewhere = "; XDG_CACHE_HOME, set where Ray is started, names another place"
    try:
        with writing(f"{folder} on {socket.gethostname()}", elsewhere):
            for name in place.files:
                _copy(giver, f"{place.folder}/{name}", temporary / name)
            if wrong := wrong_files(temporary, place.files):
                raise BridgeError(
                    f"{place.folder}/{wrong[0]} is not as it was indexed:"
                    " `lexlip index --update --repair` mends the index"
                )
            if wrong_files(folder, place.files):
                replace_folder(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _copy(giver: Any, file: str, to: Path) -> None:
    import ray

    to.parent.mkdir(parents=True, exist_ok=True)
    with to.open("wb") as written:
        while piece := ray.get(giver.read.remote(file, written.tell())):
            written.write(piece)
