"""`index.json`: what an index is, and which folder holds its data."""

import dataclasses
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import CorruptIndex, IndexNotFound, IndexVersion
from .storage import METADATA_FILE, atomic_write

FORMAT_VERSION = 2
DATA_FOLDER = re.compile(r"data-[1-9][0-9]*")


@dataclass(frozen=True, kw_only=True)
class IndexMetadata:
    """The contents of `index.json`."""

    format_version: int = FORMAT_VERSION
    lucene_version: str  # of the last writer
    directory: str  # data-<n>: holds vocabulary.txt and lucene/
    vocabulary: str  # vocabulary_hash of the words
    vocabulary_size: int
    encoder: str  # identity of the model that made the vectors
    quantization: dict[str, Any]  # such as {"scheme": "linear", "scale": 100.0}
    topk: int | None  # words kept of each document; None: all
    normalize: bool  # whether the vectors had unit length before quantization
    documents: int
    postings: int  # those of deleted documents too, until Lucene merges them away
    created: str  # ISO 8601, UTC
    extra: dict[str, Any] = field(default_factory=dict)  # the caller's own

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False) + "\n"


def vocabulary_hash(words: Sequence[str]) -> str:
    """Returns the SHA-256 (hexadecimal) of the words, joined by newlines, in UTF-8."""
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def read_metadata(path: str | Path) -> IndexMetadata:
    """Reads `index.json` of the index at path.

    Raises IndexNotFound (no such folder, or it holds no index), IndexVersion (another format) or
    CorruptIndex (not to be understood).
    """
    path = Path(path)
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
    return _check(found, file)


def _check(found: dict[str, Any], file: Path) -> IndexMetadata:
    names = {field.name for field in dataclasses.fields(IndexMetadata)}
    if missing := sorted(names - found.keys()):
        raise CorruptIndex(f"{file} lacks {', '.join(missing)}: build the index again.")
    metadata = IndexMetadata(**{name: found[name] for name in names})
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


def write_metadata(path: Path, metadata: IndexMetadata) -> None:
    """Replaces `index.json` atomically: a reader sees the old file or the new one."""
    with atomic_write(path / METADATA_FILE) as file:
        file.write(metadata.to_json())
