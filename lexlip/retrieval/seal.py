"""Which photos of an index may be sent: its seal says that this user made it of photos that they named.

Each user has a key, $XDG_STATE_HOME/lexlip/index-key (~/.local/state/lexlip/index-key), which only they can
read; the first index makes it. `extra["seal"]` of index.json is a code (HMAC) by this key of where the photos
come from and of the checksum (SHA-256) of each of the index's tables of photos. So nobody else can name files
in an index that this user's server would send; nor can they put another file, or a link, where a photo was.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from anserini_bridge import IndexHeader
from anserini_bridge.storage import sync
from lexlip.data.files import (
    FileState,
    Place,
    is_below,
    kept_folder,
    path_of,
    read_part,
    reading_file,
    real_place,
    state_of,
)
from lexlip.errors import ConfigError, UnreadableImage

CHANGED = "not what was indexed: update the index"
ELSEWHERE = "not in a folder whose photos may be sent"
KEY_BYTES = 32
_SEALED = ("given", "source", "root", "relative")  # of `extra`; see `describe_collection`


def seal(extra: Mapping[str, Any], tables: Mapping[str, str]) -> dict[str, Any]:
    """Return what an index says about its source, sealed; not sealed if this user can have no key.

    `tables` are the checksums of its tables of photos, by name; of an index in shards by the shards' folders.
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


def is_sealed(index: Path, metadata: IndexHeader) -> bool:
    """Return whether this user sealed an index, and its table, if that is to be kept, is the same still."""
    tables, table = sealed_tables(metadata.extra), metadata.extra.get("photos")
    if table is None:
        return bool(tables)
    return table in tables and tables[table] == table_checksum(index / metadata.directory / table)


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
    import secrets
    import tempfile

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
    return kept_folder("XDG_STATE_HOME", "~/.local/state") / "index-key"


def folders_to_send(names: Sequence[str]) -> tuple[str, ...]:
    """Return the real paths of folders whose photos a user names to be sent; ConfigError: one is none."""
    folders = tuple(os.path.realpath(path_of(name)) for name in names)
    for name, folder in zip(names, folders, strict=True):
        if not os.path.isdir(folder):  # noqa: PTH112
            raise ConfigError(f"--photos is {name}, which is no folder: give one with photos of the index")
    return folders


def why_not_sent(index: Path, header: IndexHeader, folders: Sequence[str]) -> str:
    """Return in a line why no photo of an index may be sent, and what to do; "" if some may."""
    if folders or sealed_tables(header.extra):
        return ""
    return (
        f"photos are not sent, as this user has not made the index {index}: give --photos FOLDER for those of"
        f" a folder, or index again, with SOURCE: lexlip index SOURCE --index {index}"
    )


def read_as_indexed(
    place: Place, known_digest: str, known_state: str, folders: Iterable[str], sealed: bool
) -> bytes:
    """Return the bytes of a photo if they are those that were indexed, and lie where they may.

    They are if they have the same digest; or, if it is not known, if the file has the same state. What is
    neither known of is a picture, at least, in a folder that the user named.

    Args:
        place: of the photo.
        known_digest: of its bytes; "" is unknown.
        known_state: of its files, see `lexlip.data.Source.state`; "" is unknown.
        folders: real paths of those in which photos may lie.
        sealed: links may lead elsewhere if they and what they lead to are as when they were indexed; and
            what is known was not made up.

    Raises:
        UnreadableImage: they are not, or cannot be read.
    """
    try:
        before = state_of(place.file)
        with reading_file(place.file) as file:
            same = before is not None and str(before) == known_state.partition("; ")[0]
            same = same and _is_of(before, file.fileno())
            if not is_below(real_place(file), folders) and not (sealed and same):
                raise UnreadableImage(ELSEWHERE, place.file)
            data = read_part(file, place.offset or 0, -1 if place.size is None else place.size)
            same = same and _is_of(before, file.fileno())
    except ValueError as error:  # no path can hold this
        raise UnreadableImage(str(error), place.file) from None
    if known_digest:
        from lexlip.data.facts import digest

        same = digest(data) == known_digest
    elif not known_state and not sealed:
        same = _is_picture(data)
    if not same:
        raise UnreadableImage(CHANGED, place.file)
    return data


def _is_of(state: FileState | None, descriptor: int) -> bool:
    """Return whether an open file has a state."""
    now = os.fstat(descriptor)
    return state is not None and (state.size, *state.times[:2]) == (
        now.st_size,
        now.st_mtime_ns,
        now.st_ctime_ns,
    )


def _is_picture(data: bytes) -> bool:
    try:
        from lexlip.data.images import open_image, quiet

        with quiet(), open_image(data):
            return True
    except UnreadableImage:
        return False
