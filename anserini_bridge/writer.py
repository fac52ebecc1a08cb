"""Builds and updates an impact index: sparse integer vectors in, a plain Lucene index out."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from anserini_bridge.errors import BadVectors, BridgeError, CorruptIndex, IndexMismatch
from anserini_bridge.flat import FLAT, FLAT_POSTINGS, flat_file, has_flat, remove_other_flats
from anserini_bridge.integrity import LUCENE_FOLDER, find_damage, lucene_files
from anserini_bridge.jvm import java_class, java_errors, lucene_version
from anserini_bridge.memory_limits import memory_left
from anserini_bridge.metadata import (
    IndexMetadata,
    check_same_vocabulary,
    read_metadata,
    read_words,
    replace_index,
    vocabulary_hash,
    with_checksums,
    write_metadata,
    write_words,
)
from anserini_bridge.storage import (
    WriterLock,
    check_data,
    check_writable,
    checksum,
    remove_leftovers,
    sync,
)
from anserini_bridge.vectors import (
    check_document_lengths,
    check_ids,
    check_vectors,
    check_vocabulary,
    pack_matrix,
    pack_strings,
    slices,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class ImpactWriter:
    """Writes documents to an index; leaving the `with` block commits, an exception undoes all changes.

    ::

        settings = {"encoder": "mini", "quantization": {"scheme": "linear", "scale": 100.0}}
        with ImpactWriter(path, words, **settings, topk=32, normalize=False) as writer:
            writer.add(["a.jpg", "b.jpg"], vectors)  # csr_matrix [2, len(words)], whole weights

    A weight becomes the term frequency of its word, so other Lucene tools can read the index: field `id`
    (stored, and as doc values) and field `contents`. A document may have no words.

    In a segment, similar documents are placed side by side, so that a search can skip most of them. The
    order in which documents were added is stored: it decides between equal scores.

    Args:
        path: the index's folder.
        vocabulary: the V words, by column of the vectors.
        encoder: identity of the model that encodes the documents.
        quantization, topk, normalize: how the vectors were made, see `IndexMetadata`.
        extra: the caller's own metadata; None: empty, or for mode="update" what the index has.
        mode: "create" builds a new index; an old one at path can be searched until the new one is
            complete, and stays if the build fails. "update" changes an index that was made with the same
            settings; searchers see the changes, all at once, after `ImpactSearcher.refresh`.
        memory_mb: MB for documents that wait and for the segment that is written. The ids added in one
            session are held too, about 100 bytes each, to detect repeated ones.
        reorder: False keeps the documents of a segment in the order in which they were added.
        without: names of damaged segments, which an update drops with all of their documents; so no damage is
            looked for. None checks all files first, and refuses to update a damaged index.
        flat: also write a copy that `FlatSearcher` searches without Java, unless the index has more than
            `FLAT_POSTINGS`; None: if the index to update has one.

    Raises:
        BadVectors: the vocabulary is invalid.
        ValueError: the mode is neither "create" nor "update".
        TypeError: JSON cannot represent the settings or the caller's own metadata.
    """

    def __init__(
        self,
        path: str | Path,
        vocabulary: Sequence[str],
        *,
        encoder: str,
        quantization: Mapping[str, Any],
        topk: int | None,
        normalize: bool,
        extra: Mapping[str, Any] | None = None,
        mode: Literal["create", "update"] = "create",
        memory_mb: float = 512,
        reorder: bool = True,
        without: Iterable[str] | None = None,
        flat: bool | None = None,
    ) -> None:
        if mode not in ("create", "update"):
            raise ValueError(f'mode is {mode!r}: give "create" or "update"')
        self.path = Path(path).absolute()
        self.vocabulary = check_vocabulary(vocabulary)
        settings = {"quantization": dict(quantization), "topk": topk, "normalize": normalize}
        # As they will be read back; what JSON cannot represent fails here and not after the build.
        self._settings: dict[str, Any] = json.loads(json.dumps({"encoder": encoder, **settings}))
        self.set_extra(extra)
        self._update = mode == "update"
        self._memory_mb = min(memory_mb, max(1.0, memory_left() / 4e6))
        self._reorder = reorder
        self._without = None if without is None else list(without)
        self._flat = flat
        self._java: Any = None
        self._old: IndexMetadata | None = None  # of the index that is updated
        self._failed = False
        self._added: set[str] = set()
        self._deleted: set[str] = set()

    def __enter__(self) -> Self:
        """Open the index for writing.

        Raises:
            IndexLocked: another process is writing to the index.
            IndexNotFound: there is no index to update, or the folder for a new one holds other files.
            IndexMismatch: the index to update was made with other settings or, as VocabularyMismatch, with
                another vocabulary.
            CorruptIndex, IndexVersion: the index to update cannot be read.
            OSError: the folder cannot be written.
            NoJava, NoJar, JVMConflict: see `start_jvm`.
        """
        java = _java()
        if self._update:
            read_metadata(self.path)  # fails before a lock file is made
        with contextlib.ExitStack() as stack:
            self._folder = self._open_folder(stack)
            with java_errors(self.path):
                self._java = java(
                    str(self._folder / LUCENE_FOLDER).encode(),
                    (self._old.commit if self._old else "").encode(),
                    *pack_strings(self.vocabulary),
                    not self._update,
                    self._reorder,
                    float(self._memory_mb),
                    " ".join(self._without or ()).encode(),
                )
            stack.callback(self._close)
            self._open_files = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            with self._open_files:
                self._commit()
        else:
            self._open_files.__exit__(kind, error, trace)

    @property
    def folder(self) -> Path:
        """The data folder, for files of the caller's own; they must be complete before the block ends."""
        self._opened()
        return self._folder

    def set_extra(self, extra: Mapping[str, Any] | None, files: Iterable[str] | None = None) -> None:
        """Replace the caller's own metadata; it becomes visible with the documents, at the same moment.

        Args:
            extra: see `ImpactWriter`.
            files: names of the caller's own files in the data folder, whose checksums are kept; None: none
                in a new index, or those of the index to update.

        Raises:
            TypeError: JSON cannot represent it.
        """
        self._extra = None if extra is None else json.loads(json.dumps(dict(extra)))
        self._files = None if files is None else list(files)

    def add(self, ids: Sequence[str], vectors: csr_matrix) -> None:
        """Add n documents with new ids.

        Args:
            ids: n distinct ids.
            vectors: [n, V], whole weights >= 0; zeros are dropped.

        Raises:
            BadVectors: ids or vectors are invalid, or the index holds one of the ids.
        """
        self._write(ids, vectors, replace=False)

    def upsert(self, ids: Sequence[str], vectors: csr_matrix) -> None:
        """Add n documents, which replace those with the same ids; they come last in the order.

        Args:
            ids: n distinct ids.
            vectors: [n, V], whole weights >= 0; zeros are dropped.

        Raises:
            BadVectors: ids or vectors are invalid.
        """
        self._write(ids, vectors, replace=True)

    def delete(self, ids: Sequence[str]) -> None:
        """Delete the documents with these ids; ids that the index does not hold are ignored.

        Raises:
            BadVectors: the ids are invalid.
        """
        java = self._opened()
        ids = check_ids(ids)
        with self._whole():
            if not self._added.isdisjoint(ids):
                _java().flush(java)
            _java().delete(java, *pack_strings(ids))
        self._added.difference_update(ids)
        self._deleted.update(ids)

    def optimize(self) -> None:
        """Rewrite all documents in as few segments as memory_mb allows, similar ones side by side.

        Many small updates make an index slow and large; this makes it fast and small again. Searchers see
        the result after `ImpactSearcher.refresh`.
        """
        java = self._opened()
        with self._whole():
            _java().optimize(java)

    def _open_folder(self, stack: contextlib.ExitStack) -> Path:
        """Return the data folder to write to; the stack holds the lock and undoes a failed build."""
        if self._update:
            stack.enter_context(WriterLock(self.path))
            self._old = read_metadata(self.path)
            remove_leftovers(self.path, keep=self._old.directory)
            self._check_settings(self._old)
            folder = self.path / self._old.directory
            lucene = f"{folder.name}/{LUCENE_FOLDER}"
            check_data(self.path, lucene)
            check_writable(self.path, folder.name, lucene)
            if self._without is None:
                check_whole(self.path, self._old)
            return folder
        folder = stack.enter_context(replace_index(self.path))
        write_words(folder, self.vocabulary)
        return folder

    def _check_settings(self, old: IndexMetadata) -> None:
        check_same_vocabulary(self.path, old, self.vocabulary)
        for name, value in self._settings.items():
            if getattr(old, name) != value:
                raise IndexMismatch(
                    f"the index at {self.path} was made with {name} {getattr(old, name)!r}, not {value!r}:"
                    " use the same, or build the index again"
                )

    def _write(self, ids: Sequence[str], vectors: csr_matrix, replace: bool) -> None:
        java = self._opened()
        vectors = check_vectors(vectors, len(self.vocabulary))
        ids = check_ids(ids, vectors.shape[0])
        check_document_lengths(vectors)
        with self._whole():
            if not replace:
                self._check_new(ids)
            elif not self._added.isdisjoint(ids):
                _java().flush(java)
            for rows in slices(vectors):
                _java().write(java, *pack_strings(ids[rows]), *pack_matrix(vectors[rows]), replace)
        self._added.update(ids)

    def _check_new(self, ids: list[str]) -> None:
        held: Iterable[str] = self._added.intersection(ids)
        if self._update and not held:
            documents = _java().find(self._java, *pack_strings(ids))
            held = {name for name, document in zip(ids, documents, strict=True) if document >= 0}
            held = held - self._deleted
        for name in held:
            raise BadVectors(f"the index at {self.path} holds the id {name!r} already: use upsert")

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """Let Java change the index; if that fails, nothing of this session can be committed any more.

        Java writes what was accepted later, in threads, so the documents of earlier calls may be lost too.
        """
        try:
            with java_errors(self.path):
                yield
        except BadVectors:
            raise
        except BaseException:
            self._failed = True
            with java_errors(self.path):
                _java().check(self._java)  # raises the cause, if Java knows one
            raise

    def _commit(self) -> None:
        """Commit beside what is searched, then name the new commit in `index.json`: the one moment."""
        java = self._opened()
        with self._whole():
            commit, documents, postings = _java().commit(java).split()
        metadata = self._metadata(commit, int(documents), int(postings))
        if self._files is not None:
            metadata = with_checksums(self.path, metadata, self._files)
        metadata = self._with_flat(metadata)
        write_metadata(self.path, metadata)
        with java_errors(self.path):
            _java().finish(self._java)
        remove_other_flats(self.path, metadata)

    def _with_flat(self, metadata: IndexMetadata) -> IndexMetadata:
        """Write the copy that is searched without Java, if there is to be one."""
        files = {name: sum for name, sum in metadata.files.items() if not name.startswith(FLAT)}
        wanted = self._old is not None and has_flat(self._old) if self._flat is None else self._flat
        if wanted and metadata.postings <= FLAT_POSTINGS:
            name = flat_file(metadata)
            file = self._folder / name
            lucene, commit = str(self._folder / LUCENE_FOLDER).encode(), metadata.commit.encode()
            with self._whole():
                java_class("impact.Flat").write(
                    lucene, commit, *pack_strings(self.vocabulary), str(file).encode()
                )
            sync(file)
            files[name] = checksum(file)
        return dataclasses.replace(metadata, files=files)

    def _metadata(self, commit: str, documents: int, postings: int) -> IndexMetadata:
        files = lucene_files(self._folder / LUCENE_FOLDER, commit)
        if self._old:
            return dataclasses.replace(
                self._old,
                lucene_version=lucene_version(),
                documents=documents,
                postings=postings,
                commit=commit,
                lucene_files=files,
                extra=self._old.extra if self._extra is None else self._extra,
            )
        return IndexMetadata(
            lucene_version=lucene_version(),
            directory=self._folder.name,
            vocabulary=vocabulary_hash(self.vocabulary),
            vocabulary_size=len(self.vocabulary),
            documents=documents,
            postings=postings,
            commit=commit,
            lucene_files=files,
            extra=self._extra or {},
            **self._settings,
        )

    def _opened(self) -> Any:
        """Return the Java writer.

        Raises:
            BridgeError: the `with` block was not entered, or was left; or an earlier call failed.
        """
        if self._java is None:
            raise BridgeError(
                f"the index at {self.path} is not open for writing: use `with ImpactWriter(...)`"
            )
        if self._failed:
            raise BridgeError(
                f"an earlier error has lost documents for the index at {self.path}, which stays as it was:"
                " write them again, in a new `with ImpactWriter(...)`"
            )
        return self._java

    def _close(self) -> None:
        """Close the Java writer, which undoes changes that were not committed."""
        java, self._java = self._java, None
        with java_errors(self.path):
            _java().close(java)


def _java() -> Any:
    """Return Java's class, with the static methods that take a writer first."""
    return java_class("impact.Writer")


def check_whole(path: Path, metadata: IndexMetadata) -> None:
    """Raise CorruptIndex if a file that the writer of an impact index may read or copy is damaged."""
    if damage := find_damage(path, metadata, {LUCENE_FOLDER: metadata.commit}):
        raise CorruptIndex.at(path, damage)


def update_index(
    path: str | Path,
    memory_mb: float = 512,
    extra: Mapping[str, Any] | None = None,
    without: Iterable[str] | None = None,
    flat: bool | None = None,
) -> ImpactWriter:
    """Return a writer that updates the index at path, with the settings that the index was made with.

    Args:
        path: the index's folder.
        memory_mb: see `ImpactWriter`.
        extra: replaces the caller's own metadata; None keeps it.
        without, flat: see `ImpactWriter`.

    Raises:
        IndexNotFound, IndexMismatch, IndexVersion, CorruptIndex: see `read_metadata`.
    """
    metadata = read_metadata(path)
    return ImpactWriter(
        path,
        read_words(Path(path), metadata),
        encoder=metadata.encoder,
        quantization=metadata.quantization,
        topk=metadata.topk,
        normalize=metadata.normalize,
        extra=extra,
        mode="update",
        memory_mb=memory_mb,
        without=without,
        flat=flat,
    )
