"""Keeps the lists of large tars, so that the next start does not walk through the tars again.

They are in $XDG_CACHE_HOME/lexlip/shards (~/.cache/lexlip/shards), one file for each tar, and may be deleted
at any time. A list is valid only for a tar with the same path, size and modification time.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

import numpy as np

from lexlip.data.source import Skipped
from lexlip.data.tar_shard import Shard

VERSION = 3  # of the lists; tars with a list of another version are listed again
FEWEST = 1000  # photos of a tar whose list is kept


def key(path: str | Path) -> str:
    """Return what a list depends on: path, size and modification time of the tar.

    Raises:
        OSError: there is no such tar.
    """
    status = os.stat(path)  # noqa: PTH116
    return json.dumps([VERSION, os.path.abspath(path), status.st_size, status.st_mtime_ns])  # noqa: PTH100


def load(path: str | Path) -> Shard | None:
    """Return the list of a tar; None if there is none, or if it is damaged or out of date."""
    try:
        with _file(path).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            if arrays["key"].tobytes().decode() != key(path):
                return None
            skipped = [Skipped(*skip) for skip in json.loads(arrays["skipped"].tobytes())]
            return Shard(
                arrays["texts"].tobytes(), arrays["ends"], arrays["offsets"], arrays["sizes"], skipped
            )
    except Exception:  # a damaged file raises nearly anything; zip's checksums reveal all damage
        return None


def save(path: str | Path, key: str, shard: Shard) -> None:
    """Keep the list of a tar, given the tar's key before it was listed; do nothing if that is impossible."""
    if len(shard) < FEWEST:
        return
    file = _file(path)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    texts = {"key": key.encode(), "texts": shard.texts, "skipped": json.dumps(shard.skipped).encode()}
    arrays = {name: np.frombuffer(text, dtype=np.uint8) for name, text in texts.items()}
    arrays |= {"ends": shard.ends, "offsets": shard.offsets, "sizes": shard.sizes}
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as opened:
            np.savez(opened, **arrays)  # type: ignore[arg-type]
        temporary.replace(file)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _file(path: str | Path) -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    name = hashlib.sha256(os.fsencode(os.path.abspath(path))).hexdigest()[:32]  # noqa: PTH100
    return Path(home) / "lexlip" / "shards" / f"{name}.npz"
