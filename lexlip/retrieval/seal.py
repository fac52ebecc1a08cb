"""The seal of an index, which says that this user made it of photos that they named.

Each user has a key, $XDG_STATE_HOME/lexlip/index-key (~/.local/state/lexlip/index-key), which only they can
read; the first index makes it. `extra["seal"]` of index.json is a code (HMAC) by this key of where the photos
come from and of the checksum (SHA-256) of each of the index's tables of photos. So nobody else can name files
in an index that this user's server would send.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import os
import secrets
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from anserini_bridge.storage import sync

KEY_BYTES = 32
_SEALED = ("given", "source", "root", "relative")  # of `extra`; see `describe_collection`


def seal(extra: Mapping[str, Any], tables: Mapping[str, str]) -> dict[str, Any]:
    """Return what an index says about its source, sealed; not sealed if this user can have no key.

    Args:
        extra: what it says.
        tables: checksums of its tables of photos, by name; of an index in shards by the shards' folders.
    """
    try:
        code = _code(_key(make=True), extra, tables)
    except OSError:
        return without_seal(extra)
    return {**extra, "seal": {"code": code, "tables": dict(tables)}}


def seal_table(extra: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Do the same for an index whose only table `extra` names, in its data folder."""
    name = extra["photos"]
    return seal(extra, {name: table_checksum(folder / name)})


def without_seal(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an index says about its source, without the seal."""
    return {name: value for name, value in extra.items() if name != "seal"}


def sealed_tables(extra: Mapping[str, Any]) -> dict[str, str]:
    """Return the checksums of an index's tables of photos by name, if this user sealed it; else nothing."""
    if "seal" not in extra:
        return {}
    tables: dict[str, str] = extra["seal"]["tables"]
    try:
        code = _code(_key(), extra, tables)
    except OSError:
        return {}
    return tables if hmac.compare_digest(code.encode(), extra["seal"]["code"].encode()) else {}


def why_unsealed(extra: Mapping[str, Any]) -> str:
    """Return why an index that has just been written is not sealed by this user; "" if it is."""
    if sealed_tables(extra):
        return ""
    try:
        _key(make=True)
    except OSError as error:
        file = f"{error.filename}: " if error.filename else ""
        return f"this user's key cannot be kept ({file}{error.strerror or error})"
    return "this user has not made the index, and all of its SOURCE must be named, and there, to seal it"


def can_seal() -> bool:
    """Return whether this user has a key, or can have one."""
    try:
        return bool(_key(make=True))
    except OSError:
        return False


def table_checksum(file: Path) -> str:
    """Return the SHA-256 of a table of photos, hexadecimal."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _code(key: bytes, extra: Mapping[str, Any], tables: Mapping[str, str]) -> str:
    said = [{name: extra.get(name) for name in _SEALED}, dict(tables)]
    return hmac.new(key, json.dumps(said, sort_keys=True).encode(), "sha256").hexdigest()


def _key(make: bool = False) -> bytes:
    """Return this user's key.

    Raises:
        OSError: there is none, it cannot be read, or it is not to be made or cannot be.
    """
    file = _key_file()
    if make and not file.exists():
        _make_key(file)
    key = file.read_bytes()
    if len(key) != KEY_BYTES:
        raise OSError(errno.EINVAL, "it is damaged: delete it, and index again", str(file))
    return key


def _make_key(file: Path) -> None:
    """Make a key, whole at once; of two processes that make one, the first makes it."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, temporary = tempfile.mkstemp(dir=file.parent)  # which nobody else may read
    try:
        with os.fdopen(descriptor, "wb") as new:
            new.write(secrets.token_bytes(KEY_BYTES))
        sync(Path(temporary))
        with suppress(FileExistsError):
            os.link(temporary, file)
    finally:
        Path(temporary).unlink()


def _key_file() -> Path:
    folder = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not folder.is_absolute():
        folder = Path(os.path.expanduser("~/.local/state"))  # noqa: PTH111 (Path fails without a home)
    if not folder.is_absolute():
        raise FileNotFoundError(errno.ENOENT, "this user has no home folder: set XDG_STATE_HOME")
    return folder / "lexlip" / "index-key"
