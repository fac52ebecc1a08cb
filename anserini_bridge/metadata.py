"""`index.json`: what an index is, and which folder holds its data.

Indexes of every kind have such a folder and file, so that one can replace another of any kind.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from anserini_bridge.errors import (
    BridgeError,
    CorruptIndex,
    IndexMismatch,
    IndexNotFound,
    IndexVersion,
    VocabularyMismatch,
)
from anserini_bridge.given_files import check_form, read_file, read_json
from anserini_bridge.storage import (
    CHECKSUM,
    DATA_FOLDER,
    METADATA_FILE,
    UNFINISHED,
    WriterLock,
    atomic_write,
    checksum,
    fields_checksum,
    next_data_folder,
    remove_folder,
    remove_leftovers,
    sync,
    unreadable,
)

FORMAT_VERSION = 2
VOCABULARY_FILE = "vocabulary.txt"
LUCENE_COMMIT = "segments_"
"""How the names of Lucene's files that name a commit begin; a number in base 36 follows."""

ANSERINI = "anserini"
"""The kind of an index of Lucene's alone, such as Anserini makes; no `index.json` says it."""


@dataclass(frozen=True, kw_only=True)
class IndexHeader:
    """The fields of `index.json` that indexes of every kind have; each kind's own class adds more.

    A field that is added later needs a default, with which older indexes are read.

    Attributes:
        format_version: of the folder's layout.
        kind: what the index is, such as "impact"; the default of a kind's own class.
        directory: name of the data folder in use, data-<n>.
        documents: how many there are.
        encoder: identity of the model that encoded the documents.
        created: when the index was built, ISO 8601 in UTC; `write_metadata` fills it in.
        extra: the caller's own metadata.
        files: checksums of files in the data folder, by name; Lucene's files have their own. Older indexes
            have none.
    """

    format_version: int = FORMAT_VERSION
    kind: str
    directory: str
    documents: int
    encoder: str
    created: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    @classmethod
    @cache
    def forms(cls) -> dict[str, Any]:
        """Return the annotations of the fields, as `check_form` takes them."""
        return get_type_hints(cls)

    def to_json(self) -> str:
        fields = dataclasses.asdict(self)
        return json.dumps({**fields, CHECKSUM: fields_checksum(fields)}, indent=2, ensure_ascii=False) + "\n"


@dataclass(frozen=True, kw_only=True)
class IndexMetadata(IndexHeader):
    """What `index.json` says about an impact index, whose data folder holds vocabulary.txt and lucene/.

    Attributes:
        lucene_version: of the last writer.
        vocabulary: `vocabulary_hash` of the words.
        vocabulary_size: number of words.
        quantization: how weights were made whole, such as {"scheme": "linear", "scale": 100.0}.
        topk: words kept of each document; None: all.
        normalize: whether the vectors had unit length before quantization.
        postings: number of nonzero weights, with those of deleted documents until Lucene merges them away.
        commit: name of Lucene's commit that is searched, such as "segments_2"; "", in indexes of older
            versions, is the newest one.
        lucene_files: names of the files of that commit; older indexes have none.
    """

    kind: str = "impact"
    lucene_version: str
    vocabulary: str
    vocabulary_size: int
    quantization: dict[str, Any]
    topk: int | None
    normalize: bool
    postings: int
    commit: str = ""
    lucene_files: list[str] = field(default_factory=list)


Header = TypeVar("Header", bound=IndexHeader)


def vocabulary_hash(words: Sequence[str]) -> str:
    """Return the hexadecimal SHA-256 of the words, joined by newlines, in UTF-8."""
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def check_same_vocabulary(path: Path, metadata: IndexMetadata, words: Sequence[str]) -> None:
    """Check that an index was made with these words, in this order.

    Raises:
        VocabularyMismatch: it was made with others.
    """
    found = vocabulary_hash(words)
    if found != metadata.vocabulary:
        raise VocabularyMismatch(
            f"the index at {path} was made with a vocabulary of {metadata.vocabulary_size} words"
            f" ({metadata.vocabulary[:12]}), not with this one of {len(words)} words ({found[:12]}):"
            " use the model that made the index, or build the index again"
        )


def is_of_anserini(path: str | Path) -> bool:
    """Return whether a folder holds an index of Lucene's, and no `index.json` that says more about it."""
    try:
        return not (Path(path) / METADATA_FILE).exists() and any(Path(path).glob(f"{LUCENE_COMMIT}*"))
    except (OSError, ValueError):  # no folder can have that name, or this user may not look into it
        return False


def read_searched_header(path: str | Path) -> IndexHeader:
    """Read what `read_header` does, or say of an index of Anserini's that it is one."""
    if is_of_anserini(path):
        return IndexHeader(kind=ANSERINI, directory=".", documents=0, encoder="a model that it does not name")
    return read_header(path)


def read_header(path: str | Path) -> IndexHeader:
    """Read the part of `index.json` that indexes of every kind have.

    Raises:
        IndexNotFound: there is no such folder, or it holds no index.
        IndexVersion: the index has another format.
        CorruptIndex: the file cannot be understood.
    """
    return _parse(_read(Path(path)), IndexHeader, Path(path) / METADATA_FILE)


def read_metadata(path: str | Path) -> IndexMetadata:
    """Read `index.json` of the impact index at path.

    Raises:
        IndexMismatch: the index is of another kind.
        IndexNotFound, IndexVersion, CorruptIndex: see `read_header`.
    """
    return read_metadata_as(IndexMetadata, path)


def read_metadata_as(form: type[Header], path: str | Path) -> Header:
    """Read `index.json` of an index of a given kind.

    Args:
        form: the kind's own class, with a default for `kind`.
        path: the index's folder.

    Raises:
        IndexMismatch: the index is of another kind.
        IndexNotFound, IndexVersion, CorruptIndex: see `read_header`.
    """
    path = Path(path)
    found = _read(path)
    kind, wanted = found["kind"], form.__dataclass_fields__["kind"].default
    if kind != wanted:
        raise IndexMismatch(
            f"{path} holds an index of kind {kind!r}, and one of kind {wanted!r} is needed:"
            " give the folder of such an index"
        )
    return _parse(found, form, path / METADATA_FILE)


def _read(path: Path) -> dict[str, Any]:
    """Return the fields of `index.json`; its format version is checked, and `kind` is always there."""
    file = path / METADATA_FILE
    try:
        found = read_json(file)
    except FileNotFoundError:
        if is_of_anserini(path):
            raise IndexNotFound(
                f"{path} holds an index of Lucene's alone, such as Anserini makes, which knows nothing of"
                " photos and their model: only `lexlip search --model NAME` can ask it; for all else index"
                " its photos with `lexlip index FOLDER`"
            ) from None
        reason = f"{path} holds no index" if path.is_dir() else f"there is no index at {path}"
        raise IndexNotFound(
            f"{reason}: make one with `lexlip index FOLDER`, or give the folder of another"
        ) from None
    except NotADirectoryError:
        raise IndexNotFound(f"{path} is a file, not an index: give the folder of an index") from None
    except OSError as error:
        raise unreadable(file, error) from None
    except ValueError as error:
        raise CorruptIndex(f"{file} is not JSON ({error}): build the index again") from None
    version = found.get("format_version") if isinstance(found, dict) else None
    if type(version) is not int:
        raise CorruptIndex(f"{file} has no format_version: build the index again")
    if version != FORMAT_VERSION:
        raise IndexVersion(
            f"{file} has format version {version}, and this program reads version {FORMAT_VERSION}:"
            f" {'install a newer lexlip' if version > FORMAT_VERSION else 'build the index again'}"
        )
    sealed = CHECKSUM in found or "files" in found  # those of older versions have neither
    if sealed and found.get(CHECKSUM) != fields_checksum(found):
        raise CorruptIndex(f"{file} was changed after it was written: build the index again")
    found = {"kind": IndexMetadata.kind, **found}  # older impact indexes have no kind
    try:
        check_form(found["kind"], str, "kind")
    except ValueError as error:
        raise _wrong(file, error) from None
    return found


def _parse(found: dict[str, Any], form: type[Header], file: Path) -> Header:
    """Return the fields that a class has; one that is missing gets its default, if it has one."""
    fields = dataclasses.fields(form)
    required = {field.name for field in fields if field.default is field.default_factory is MISSING}
    if missing := sorted(required - found.keys()):
        raise CorruptIndex(f"{file} lacks {', '.join(missing)}: build the index again")
    values = {field.name: found[field.name] for field in fields if field.name in found}
    forms = form.forms()
    try:
        for name, value in values.items():
            check_form(value, forms[name], name)
    except ValueError as error:
        raise _wrong(file, error) from None
    metadata = form(**values)
    if not DATA_FOLDER.fullmatch(str(metadata.directory)):
        raise CorruptIndex(
            f"{file} points to {metadata.directory!r}, which is not a data folder: build the index again"
        )
    return metadata


def _wrong(file: Path, error: ValueError) -> CorruptIndex:
    return CorruptIndex(f"{file} is damaged ({error}): build the index again")


def write_words(folder: Path, words: Sequence[str]) -> None:
    """Write the vocabulary of an impact index to its data folder."""
    with atomic_write(folder / VOCABULARY_FILE) as file:
        file.writelines(f"{word}\n" for word in words)


def restore_words(path: Path, metadata: IndexMetadata, words: Sequence[str]) -> None:
    """Write the vocabulary of the impact index at path again, after it was damaged.

    Raises:
        VocabularyMismatch: these are other words.
    """
    check_same_vocabulary(path, metadata, words)
    write_words(path / metadata.directory, words)


def read_words(path: Path, metadata: IndexMetadata) -> tuple[str, ...]:
    """Read the vocabulary of the impact index at path; a word's position is its column in the vectors.

    Raises:
        CorruptIndex: the file is missing, or was changed.
    """
    file = path / metadata.directory / VOCABULARY_FILE
    try:
        words = tuple(read_file(file).decode().split("\n")[:-1])
    except (OSError, UnicodeDecodeError) as error:
        raise CorruptIndex(f"{file} cannot be read ({error}): build the index again") from None
    if vocabulary_hash(words) != metadata.vocabulary:
        raise CorruptIndex(f"{file} was changed after the index was built: build the index again")
    return words


def check_file(path: Path, header: IndexHeader, name: str) -> None:
    """Check a file of the data folder, if `index.json` has its checksum.

    Raises:
        CorruptIndex: it is missing, or was changed.
    """
    try:
        whole = name not in header.files or checksum(path / header.directory / name) == header.files[name]
        why = f"{name} was changed after it was written"
    except OSError as error:
        whole, why = False, str(error)
    if not whole:
        raise CorruptIndex(f"the index at {path} is damaged ({why}): build the index again")


def with_checksums(path: Path, metadata: Header, names: Iterable[str]) -> Header:
    """Return metadata with the checksums of files of the data folder, which are complete."""
    sums = {name: checksum(path / metadata.directory / name) for name in names}
    return dataclasses.replace(metadata, files=sums)


def write_metadata(path: Path, metadata: IndexHeader) -> None:
    """Replace `index.json` atomically: a reader sees the old file or the new one."""
    if not metadata.created:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        metadata = dataclasses.replace(metadata, created=now)
    sync(path / metadata.directory)
    sync(path)
    with atomic_write(path / METADATA_FILE) as file:
        file.write(metadata.to_json())


@contextlib.contextmanager
def replace_index(path: Path) -> Iterator[Path]:
    """Give the data folder of a new index; an old one at path can be searched until the new one is complete.

    The block writes its files there and calls `write_metadata` last. If it fails before, the old index
    stays as it was.

    Raises:
        IndexLocked: another process is writing to the index.
        IndexNotFound: path is a file, or a folder of other files.
    """
    with WriterLock(path):
        folder = _make_data_folder(path)
        try:
            yield folder
        except BaseException:
            if _directory(path) != folder.name:
                remove_folder(folder)
            raise
        remove_leftovers(path, keep=folder.name)
        remove_folder(path / UNFINISHED)


def _make_data_folder(path: Path) -> Path:
    """Make the data folder of a new index, after removing what interrupted writers left."""
    try:
        remove_leftovers(path, keep=read_header(path).directory)
    except IndexNotFound:
        remove_leftovers(path, keep=None)
    except BridgeError:  # an index that cannot be read is kept until the new one replaces it
        pass
    folder = path / next_data_folder(path)
    folder.mkdir()
    return folder


def _directory(path: Path) -> str | None:
    """Return the name of the data folder in use, or None if it is not known."""
    try:
        return read_header(path).directory
    except BridgeError:
        return None
