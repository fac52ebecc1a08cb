"""`index.json`: what an index is, and which folder holds its data.

The indexes of all kinds lie in such folders, so that one of any kind can take the place of another.
"""

import contextlib
import dataclasses
import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from .errors import BridgeError, CorruptIndex, IndexMismatch, IndexNotFound, IndexVersion
from .storage import (
    METADATA_FILE,
    WriterLock,
    atomic_write,
    next_data_folder,
    remove_leftovers,
    sync,
)

FORMAT_VERSION = 2
DATA_FOLDER = re.compile(r"data-[1-9][0-9]*")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, kw_only=True)
class IndexHeader:
    """What `index.json` says of an index of any kind; a kind's own class adds to it, and names itself."""

    format_version: int = FORMAT_VERSION
    kind: str
    directory: str  # data-<n>: holds the index's files
    documents: int
    encoder: str  # identity of the model that made what is searched
    created: str = field(default_factory=_now)  # ISO 8601, UTC
    extra: dict[str, Any] = field(default_factory=dict)  # the caller's own

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False) + "\n"


@dataclass(frozen=True, kw_only=True)
class IndexMetadata(IndexHeader):
    """That of an impact index; data-<n> holds vocabulary.txt and lucene/."""

    kind: str = "impact"
    lucene_version: str  # of the last writer
    vocabulary: str  # vocabulary_hash of the words
    vocabulary_size: int
    quantization: dict[str, Any]  # such as {"scheme": "linear", "scale": 100.0}
    topk: int | None  # words kept of each document; None: all
    normalize: bool  # whether the vectors had unit length before quantization
    postings: int  # those of deleted documents too, until Lucene merges them away


Header = TypeVar("Header", bound=IndexHeader)


def vocabulary_hash(words: Sequence[str]) -> str:
    """Returns the SHA-256 (hexadecimal) of the words, joined by newlines, in UTF-8."""
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def read_header(path: str | Path) -> IndexHeader:
    """Reads what `index.json` says of the index at path, of whichever kind.

    Raises IndexNotFound (no such folder, or it holds no index), IndexVersion (another format) or
    CorruptIndex (not to be understood).
    """
    return _check(_read(Path(path)), IndexHeader, Path(path) / METADATA_FILE)


def read_metadata(path: str | Path) -> IndexMetadata:
    """Reads `index.json` of the impact index at path.

    Raises as `read_header`, and IndexMismatch (an index of another kind).
    """
    return read_metadata_as(IndexMetadata, path)


def read_metadata_as(form: type[Header], path: str | Path) -> Header:
    """Reads `index.json` of an index of a certain kind, with the fields that this kind has.

    Raises as `read_metadata`.
    """
    path = Path(path)
    found = _read(path)
    kind, wanted = found["kind"], form.__dataclass_fields__["kind"].default
    if kind != wanted:
        raise IndexMismatch(f"{path} holds an index of kind {kind!r}, and one of kind {wanted!r} is needed.")
    return _check(found, form, path / METADATA_FILE)


def _read(path: Path) -> dict[str, Any]:
    """`index.json`, of which the version and the kind are known to be there."""
    file = path / METADATA_FILE
    try:
        found = json.loads(file.read_bytes())
    except FileNotFoundError:
        if path.is_dir():
            reason = f"{path} is not an index: it holds no {METADATA_FILE}"
        else:
            reason = f"There is no index at {path}"
        raise IndexNotFound(f"{reason}; build one, or give the folder of another.") from None
    except NotADirectoryError:
        raise IndexNotFound(f"{path} is a file, not an index: give the folder of an index.") from None
    except ValueError as error:
        raise CorruptIndex(f"{file} is not JSON ({error}): build the index again.") from None
    version = found.get("format_version") if isinstance(found, dict) else None
    if type(version) is not int:
        raise CorruptIndex(f"{file} has no format_version: build the index again.")
    if version != FORMAT_VERSION:
        raise IndexVersion(
            f"{file} has format version {version}, and this program reads version {FORMAT_VERSION}: "
            f"{'install a newer lexlip' if version > FORMAT_VERSION else 'build the index again'}."
        )
    return {"kind": IndexMetadata.kind, **found}  # older ones do not say


def _check(found: dict[str, Any], form: type[Header], file: Path) -> Header:
    names = {field.name for field in dataclasses.fields(form)}
    if missing := sorted(names - found.keys()):
        raise CorruptIndex(f"{file} lacks {', '.join(missing)}: build the index again.")
    metadata = form(**{name: found[name] for name in names})
    if not DATA_FOLDER.fullmatch(str(metadata.directory)):
        raise CorruptIndex(
            f"{file} points to the folder {metadata.directory!r}, which no index has: build the index again."
        )
    return metadata


def read_words(path: Path, metadata: IndexMetadata) -> tuple[str, ...]:
    """Reads the vocabulary of the index at path, by column of the vectors; raises CorruptIndex."""
    file = path / metadata.directory / "vocabulary.txt"
    try:
        words = tuple(file.read_bytes().decode().split("\n")[:-1])
    except (OSError, UnicodeDecodeError) as error:
        raise CorruptIndex(f"{file} cannot be read ({error}): build the index again.") from None
    if vocabulary_hash(words) != metadata.vocabulary:
        raise CorruptIndex(f"{file} was changed after the index was built: build the index again.")
    return words


def open_data_folder(path: Path) -> Path:
    """Makes the folder of a new index, after removing what killed writers left; the lock must be held."""
    try:
        remove_leftovers(path, keep=read_header(path).directory)
    except IndexNotFound:
        remove_leftovers(path, keep=None)
    except BridgeError:  # an index that cannot be read: keep it until a new one replaces it
        pass
    folder = path / next_data_folder(path)
    folder.mkdir()
    return folder


def write_metadata(path: Path, metadata: IndexHeader) -> None:
    """Replaces `index.json` atomically: a reader sees the old file or the new one."""
    sync(path / metadata.directory)
    sync(path)
    with atomic_write(path / METADATA_FILE) as file:
        file.write(metadata.to_json())


@contextlib.contextmanager
def replace_index(path: Path) -> Iterator[Path]:
    """Gives the folder of a new index, beside the old one at path, if any, which answers meanwhile.

    The block writes its files there and calls `write_metadata` last; if it fails before, nothing has
    changed. Raises IndexLocked, or IndexNotFound (path holds other files).
    """
    lock = WriterLock(path)
    try:
        folder = open_data_folder(path)
        try:
            yield folder
        except BaseException:
            if _directory(path) != folder.name:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        remove_leftovers(path, keep=folder.name)
    finally:
        lock.release()


def _directory(path: Path) -> str | None:
    """The folder that counts; None where that is not known."""
    try:
        return read_header(path).directory
    except BridgeError:
        return None
