"""Builds and updates an impact index: sparse integer vectors in, a plain Lucene index out."""

import dataclasses
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from scipy.sparse import csr_matrix

from .errors import BadVectors, BridgeError, IndexMismatch, VocabularyMismatch
from .jvm import java_class, java_errors
from .metadata import (
    IndexMetadata,
    open_data_folder,
    read_metadata,
    read_words,
    vocabulary_hash,
    write_metadata,
)
from .runtime import lucene_version
from .storage import WriterLock, atomic_write, remove_leftovers
from .vectors import (
    check_document_lengths,
    check_ids,
    check_vectors,
    check_vocabulary,
    pack_matrix,
    pack_strings,
    slices,
)


class ImpactWriter:
    """Writes documents to the index at path; leaving the `with` block commits, an exception undoes all.

    ```python
    with ImpactWriter(path, words, encoder="mini", quantization={"scheme": "linear", "scale": 100.0},
                      topk=32, normalize=False) as writer:
        writer.add(["a.jpg", "b.jpg"], vectors)  # csr_matrix [2, len(words)], whole weights
    ```

    A weight becomes the term frequency of its word, so other Lucene tools can read the index: field `id`
    (stored, and as doc values) and field `contents`. A document without words is a document too.

    mode="create" builds a new index beside the old one, if any, which answers until the new one is
    complete, however the build ends. mode="update" changes an index made with the same settings; searchers
    see the changes, all at once, after refresh().

    memory_mb bounds the documents that are held until a segment of them is written; on top of it, ids added
    in one session are kept (about 100 bytes each), to tell repeated ones at once. In a segment similar
    documents lie side by side (reorder=False: as they came), so that a search can pass over most of them.
    The order in which documents were added is remembered: it decides between equal scores.
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
    ) -> None:
        """Checks the arguments; the index is opened by `with`."""
        if mode not in ("create", "update"):
            raise ValueError(f'mode is {mode!r}: give "create" or "update".')
        self.path = Path(path).absolute()
        self.vocabulary = check_vocabulary(vocabulary)
        settings = {"quantization": dict(quantization), "topk": topk, "normalize": normalize}
        # As they will be read back, so that what JSON cannot hold fails here and not after the build.
        self._settings: dict[str, Any] = json.loads(json.dumps({"encoder": encoder, **settings}))
        self._extra = None if extra is None else json.loads(json.dumps(dict(extra)))
        self._update = mode == "update"
        self._memory_mb = memory_mb
        self._reorder = reorder
        self._java: Any = None
        self._added: set[str] = set()
        self._deleted: set[str] = set()

    def __enter__(self) -> Self:
        """Opens the index for writing.

        Raises IndexLocked; IndexNotFound (create: the folder holds other files; update: no index there);
        VocabularyMismatch or IndexMismatch (update: made with another vocabulary or other settings);
        CorruptIndex, IndexVersion, NoJava, NoJar or JVMConflict.
        """
        writer = java_class("impact.Writer")
        if self._update:
            read_metadata(self.path)  # refuse before making a lock file
        self._lock = WriterLock(self.path)
        self._created_folder: Path | None = None
        self._old: IndexMetadata | None = None
        try:
            folder = self._open_folder()
            with java_errors(self.path):
                self._java = writer(
                    str(folder / "lucene").encode(),
                    *pack_strings(self.vocabulary),
                    not self._update,
                    self._reorder,
                    float(self._memory_mb),
                )
        except BaseException:
            self._abandon()
            raise
        return self

    def add(self, ids: Sequence[str], vectors: csr_matrix) -> None:
        """Adds documents with new ids; vectors [len(ids), V] of whole weights >= 0 (0 is dropped).

        Raises BadVectors, also for an id that the index holds already.
        """
        self._write(ids, vectors, replace=False)

    def upsert(self, ids: Sequence[str], vectors: csr_matrix) -> None:
        """Adds documents in place of those with the same ids; a replaced one goes to the end of the order.

        Raises BadVectors.
        """
        self._write(ids, vectors, replace=True)

    def delete(self, ids: Sequence[str]) -> None:
        """Deletes the documents with these ids; ids that the index does not hold are ignored."""
        java = self._opened()
        ids = check_ids(ids)
        with java_errors(self.path):
            if not self._added.isdisjoint(ids):
                java.flush()
            java.delete(*pack_strings(ids))
        self._added.difference_update(ids)
        self._deleted.update(ids)

    def optimize(self) -> None:
        """Writes the documents anew in as few segments as memory_mb allows, similar ones side by side.

        Brings back what many small updates cost in speed and size. Searchers see it after refresh().
        """
        java = self._opened()
        with java_errors(self.path):
            java.optimize()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._abandon()
            return
        try:
            self._commit()
        except BaseException:
            self._abandon()
            raise
        self._java = None
        self._lock.release()

    def _open_folder(self) -> Path:
        """The data folder to write to, after removing what killed writers left."""
        if self._update:
            self._old = read_metadata(self.path)
            remove_leftovers(self.path, keep=self._old.directory)
            self._check_settings(self._old)
            return self.path / self._old.directory
        folder = self._created_folder = open_data_folder(self.path)
        with atomic_write(folder / "vocabulary.txt") as file:
            file.writelines(f"{word}\n" for word in self.vocabulary)
        return folder

    def _check_settings(self, old: IndexMetadata) -> None:
        check_same_vocabulary(self.path, old, self.vocabulary)
        for name, value in self._settings.items():
            if getattr(old, name) != value:
                raise IndexMismatch(
                    f"The index at {self.path} was made with {name} {getattr(old, name)!r}, not {value!r}: "
                    "use the same, or build the index again."
                )

    def _write(self, ids: Sequence[str], vectors: csr_matrix, replace: bool) -> None:
        java = self._opened()
        vectors = check_vectors(vectors, len(self.vocabulary))
        ids = check_ids(ids, vectors.shape[0])
        check_document_lengths(vectors)
        with java_errors(self.path):
            if not replace:
                self._check_new(ids)
            elif not self._added.isdisjoint(ids):
                java.flush()
            for rows in slices(vectors):
                java.write(*pack_strings(ids[rows]), *pack_matrix(vectors[rows]), replace)
        self._added.update(ids)

    def _check_new(self, ids: list[str]) -> None:
        held: Iterable[str] = self._added.intersection(ids)
        if self._update and not held:
            documents = self._java.find(*pack_strings(ids))
            held = {name for name, document in zip(ids, documents, strict=True) if document >= 0}
            held = held - self._deleted
        for name in held:
            raise BadVectors(f"The index at {self.path} holds the id {name!r} already: use upsert.")

    def _commit(self) -> None:
        with java_errors(self.path):
            documents, postings = self._java.commit()
        metadata = self._metadata(documents, postings)
        write_metadata(self.path, metadata)
        self._created_folder = None  # it is the index now
        remove_leftovers(self.path, keep=metadata.directory)

    def _metadata(self, documents: int, postings: int) -> IndexMetadata:
        if self._old:
            return dataclasses.replace(
                self._old,
                lucene_version=lucene_version(),
                documents=documents,
                postings=postings,
                extra=self._old.extra if self._extra is None else self._extra,
            )
        assert self._created_folder
        return IndexMetadata(
            lucene_version=lucene_version(),
            directory=self._created_folder.name,
            vocabulary=vocabulary_hash(self.vocabulary),
            vocabulary_size=len(self.vocabulary),
            documents=documents,
            postings=postings,
            extra=self._extra or {},
            **self._settings,
        )

    def _opened(self) -> Any:
        if self._java is None:
            raise BridgeError(
                f"The index at {self.path} is not open for writing: use `with ImpactWriter(...)`."
            )
        return self._java

    def _abandon(self) -> None:
        """Leaves the index as it was found."""
        try:
            if self._java is not None:
                with java_errors(self.path):
                    self._java.rollback()
        finally:
            self._java = None
            if self._created_folder:
                shutil.rmtree(self._created_folder, ignore_errors=True)
            self._lock.release()


def update_index(
    path: str | Path, memory_mb: float = 512, extra: Mapping[str, Any] | None = None
) -> ImpactWriter:
    """Returns an ImpactWriter with mode="update" and the settings that the index at path was made with.

    extra replaces the caller's own metadata; None keeps it.

    Raises IndexNotFound, IndexVersion or CorruptIndex.
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
    )


def check_same_vocabulary(path: Path, metadata: IndexMetadata, words: Sequence[str]) -> None:
    """Raises VocabularyMismatch unless the index was made with these words, in this order."""
    found = vocabulary_hash(words)
    if found != metadata.vocabulary:
        raise VocabularyMismatch(
            f"The index at {path} was made with a vocabulary of {metadata.vocabulary_size} words "
            f"({metadata.vocabulary[:12]}), not with this one of {len(words)} words ({found[:12]}): "
            "use the model that made the index, or build the index again."
        )
