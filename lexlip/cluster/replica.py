"""One replica of a shard: an actor with a JVM of its own, and how it comes by the shard's files."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path
from typing import Any, NamedTuple

from anserini_bridge import BridgeError, start_jvm
from anserini_bridge.storage import METADATA_FILE, checksum, replace_folder
from lexlip.errors import DataError, FixableError
from lexlip.search.engines.shard import OpenShard

PIECE = 1 << 26  # bytes of a file that are sent at a time
SMALL_GARBAGE = "-XX:MaxNewSize=64m"  # Java collects its garbage early, instead of growing for hours


class ShardPlace(NamedTuple):
    """Where a shard lies.

    Attributes:
        folder: an absolute path.
        files: checksums of its files, by path in the folder.
        version: names the state of the whole index, so that copies of an older one are not taken for it.
    """

    folder: str
    files: dict[str, str]
    version: str


class FileGiver:
    """An actor on the machine where the server runs: it reads the files of shards for the replicas."""

    def read(self, file: str, start: int) -> bytes:
        """Return up to PIECE bytes of a file."""
        with Path(file).open("rb") as opened:
            opened.seek(start)
            return opened.read(PIECE)


class Replica:
    """An actor of Ray that answers for a shard, one call at a time.

    Args:
        place: of the shard.
        giver: a `FileGiver` from which the shard is copied to this machine's own disk, into
            $XDG_CACHE_HOME/lexlip/served; None opens it where it lies.

    Raises:
        DataError: this machine does not see the shard.
        BridgeError: it cannot be opened.
    """

    def __init__(self, place: ShardPlace, giver: Any = None) -> None:
        folder = Path(place.folder)
        if giver is not None:
            folder = copied(place, giver)
        elif not (folder / METADATA_FILE).is_file():
            raise DataError(
                f"{socket.gethostname()} does not see {folder}: put the index where all machines see"
                " it, or give --copy"
            )
        start_jvm([SMALL_GARBAGE])
        self._shard = OpenShard(folder, place.files[METADATA_FILE])

    def ready(self) -> tuple[str, int]:
        """Return the machine and the process, once the shard is open."""
        import ray

        return ray.get_runtime_context().get_node_id(), os.getpid()

    def call(self, method: str, *arguments: Any) -> Any:
        """Return what a method of `OpenShard` returns, or the error for the user that it raised."""
        try:
            return getattr(self._shard, method)(*arguments)
        except FixableError as error:
            return error


def copied(place: ShardPlace, giver: Any) -> Path:
    """Return the folder of this machine's own copy of a shard, which is made or renewed if it must be.

    Raises:
        BridgeError: what arrived is not what was indexed.
    """
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "lexlip" / "served"
    folder = home / place.version / Path(place.folder).name
    if _damage(folder, place.files) is None:
        return folder
    temporary = folder.with_name(f"{folder.name}.{os.getpid()}")  # another replica may copy it too
    shutil.rmtree(temporary, ignore_errors=True)
    for name in place.files:
        _copy(giver, f"{place.folder}/{name}", temporary / name)
    if (wrong := _damage(temporary, place.files)) is not None:
        shutil.rmtree(temporary, ignore_errors=True)
        raise BridgeError(f"{place.folder}/{wrong} is not as it was indexed: index again")
    if _damage(folder, place.files) is None:
        shutil.rmtree(temporary)
    else:
        replace_folder(temporary, folder)
    return folder


def _copy(giver: Any, file: str, to: Path) -> None:
    import ray

    to.parent.mkdir(parents=True, exist_ok=True)
    with to.open("wb") as written:
        while piece := ray.get(giver.read.remote(file, written.tell())):
            written.write(piece)


def _damage(folder: Path, files: dict[str, str]) -> str | None:
    """Return the name of a file that is missing or differs; None: there is none."""
    for name, sum in files.items():
        try:
            if checksum(folder / name) != sum:
                return name
        except OSError:
            return name
    return None
