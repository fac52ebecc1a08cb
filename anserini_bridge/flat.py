"""Searches the copy of an impact index that needs no Java: `flat-COMMIT` in the data folder.

A writer makes the copy of each commit from Lucene's own postings, if it is asked to and they are few enough
(`FLAT_POSTINGS`). Little-endian, with P postings of V words in D documents, none of them deleted:

    documents   int32 [P]       of each word in turn, ascending
    weights     of 1, 2 or 4 bytes [P]
    zeros       up to the next multiple of 8 bytes
    orders      int64 [D]       ascend as documents were added, which decides between equal scores
    starts      int32 [V + 1]   where each word's postings begin, and the last one's end
    ends        int32 [D]       where each id ends in the block
    sorted      int32 [D]       the documents by the bytes of their ids
    ids         UTF-8
    sizes       int32 [5]       V, P, bytes of a weight, D, bytes of the ids
"""

from __future__ import annotations

import contextlib
import copy
import mmap
import threading
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from anserini_bridge.checks import (
    check_allowed,
    check_one_row,
    check_same_state,
    check_settings,
    made_anew,
    state_of,
)
from anserini_bridge.errors import BadVectors, BridgeError, CorruptIndex, IndexMismatch, UnknownId
from anserini_bridge.given_files import check_file
from anserini_bridge.metadata import (
    IndexHeader,
    IndexMetadata,
    check_same_vocabulary,
    read_metadata,
    read_words,
)
from anserini_bridge.sparse_rows import Rows
from anserini_bridge.storage import remove

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from anserini_bridge.searcher import ImpactSearcher

FLAT = "flat-"
"""How the name of a copy begins."""

FLAT_POSTINGS = 8_000_000
"""The most postings of an index with such a copy, some 250,000 photos; of a larger one Java skips most."""

_FEW = 64  # ids that are looked up one by one


def flat_file(metadata: IndexMetadata) -> str:
    """Return the name of the copy of a state of an index; `metadata.files` has it if there is one."""
    return f"{FLAT}{metadata.commit}"


def has_flat(metadata: IndexMetadata) -> bool:
    """Return whether this state of an index has a copy."""
    return flat_file(metadata) in metadata.files


def needs_java(path: str | Path, header: IndexHeader) -> bool:
    """Return whether Lucene searches an index; a dense one, and one with such a copy, need no Java."""
    if header.kind == IndexMetadata.kind:
        return not has_flat(read_metadata(path))
    return header.kind != "dense"


def remove_other_flats(path: Path, metadata: IndexMetadata) -> None:
    """Delete copies of other states, which an update replaced or did not finish."""
    for file in (path / metadata.directory).glob(f"{FLAT}*"):
        if file.name != flat_file(metadata):
            remove(file)


@dataclass(frozen=True)
class AllowedRows:
    """Documents that searches of one state of an index may find, see `FlatSearcher.allow`."""

    state: str
    mask: NDArray[np.bool_]

    @property
    def count(self) -> int:
        """How many they are."""
        return int(np.count_nonzero(self.mask))


class _Flat:
    """The arrays of a copy, in mapped memory."""

    def __init__(self, file: Path, checksum: str) -> None:
        """Open the copy.

        Raises:
            OSError: it cannot be read.
            ValueError: it is not as it was written.
        """
        check_file(file)
        with file.open("rb") as opened:
            content = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        if f"{zlib.crc32(content):08x}" != checksum:
            raise ValueError("its checksum is another")
        words, postings, width, size, text = np.frombuffer(content, "<i4", 5, len(content) - 20).tolist()
        at = 0

        def take(kind: str, count: int) -> NDArray[Any]:
            nonlocal at
            found = np.frombuffer(content, kind, count, at)
            at += found.nbytes
            return found

        self.documents = take("<i4", postings)
        self.weights = take(f"<u{width}", postings)
        at += -at % 8
        self.orders = take("<i8", size)
        self.starts = take("<i4", words + 1)
        self.ends = take("<i4", size)
        self.sorted = take("<i4", size)
        self.block = content[at : at + text]

    def __len__(self) -> int:
        return len(self.orders)

    def postings(self, word: int) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """Return the documents that have a word, and its weight in each."""
        part = slice(int(self.starts[word]), int(self.starts[word + 1]))
        return self.documents[part], self.weights[part]

    def id(self, document: int) -> bytes:
        """Return the id of a document, in UTF-8."""
        start = int(self.ends[document - 1]) if document else 0
        return self.block[start : int(self.ends[document])]

    def names(self, documents: NDArray[Any]) -> list[str]:
        """Return the ids of documents."""
        return [self.id(document).decode() for document in documents.tolist()]

    @cached_property
    def every(self) -> dict[str, int]:
        """All ids, each with its document's number."""
        return {id: number for number, id in enumerate(self.names(np.arange(len(self))))}

    def number(self, id: str) -> int:
        """Return the number of the document with an id, or -1."""
        wanted = id.encode(errors="surrogatepass")
        at = bisect_left(self.sorted, wanted, key=lambda document: self.id(int(document)))
        found = int(self.sorted[at]) if at < len(self) else -1
        return found if found >= 0 and self.id(found) == wanted else -1

    def best(
        self, words: NDArray[Any], boosts: NDArray[Any], k: int, mask: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the k best documents for a query's words, among those of a mask [D], and their scores."""
        highest = int(boosts.sum(dtype=np.int64)) * np.iinfo(self.weights.dtype).max  # or less
        kind = np.int32 if highest < 2**31 else np.int64
        scores: NDArray[Any] = np.zeros(len(self), kind)
        for word, boost in zip(words.tolist(), boosts.tolist(), strict=True):
            documents, weights = self.postings(word)
            np.add.at(scores, documents, np.multiply(weights, boost, dtype=kind))  # faster than +=
        if mask is not None:
            scores[~mask] = 0
        least = np.partition(scores, len(scores) - k)[len(scores) - k] if k < len(scores) else 1
        hits = np.flatnonzero(scores >= max(least, 1))
        found = scores[hits].astype(np.int64)
        order = np.lexsort((self.orders[hits], -found))[:k]
        return hits[order], found[order]

    def added(
        self, documents: NDArray[np.int64], words: NDArray[Any], boosts: NDArray[Any], width: int
    ) -> Rows:
        """Return what each word of a query adds to the scores of documents, int64 [n, width]."""
        parts = [(np.empty(0, np.int64),) * 3]  # rows, words, weights
        for word, boost in zip(words.tolist(), boosts.tolist(), strict=True):
            holding, weights = self.postings(word)
            at = np.searchsorted(holding, documents)
            rows = np.flatnonzero(at < len(holding))
            rows = rows[holding[at[rows]] == documents[rows]]
            parts.append((rows, np.full(len(rows), word), weights[at[rows]].astype(np.int64) * boost))
        rows, columns, values = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.lexsort((columns, rows))
        starts = np.cumsum(np.bincount(rows + 1, minlength=len(documents) + 1))
        return Rows(values[order], columns[order], starts, (len(documents), width))

    def rows(self, documents: NDArray[np.int64], width: int) -> Rows:
        """Return all that some documents hold, int64 [n, width]."""
        asked = np.zeros(len(self), np.bool_)
        asked[documents] = True
        places = np.flatnonzero(asked[self.documents])  # of their postings, by word
        places = places[np.argsort(self.documents[places], kind="stable")]
        holders = self.documents[places]
        begins, ends = (np.searchsorted(holders, documents, side).tolist() for side in ("left", "right"))
        parts = [places[begin:end] for begin, end in zip(begins, ends, strict=True)]
        places = np.concatenate([places[:0], *parts])
        words = np.searchsorted(self.starts, places, side="right") - 1
        starts = np.cumsum([0, *map(len, parts)])
        return Rows(self.weights[places].astype(np.int64), words, starts, (len(documents), width))


class _Opened(NamedTuple):
    metadata: IndexMetadata
    words: tuple[str, ...]
    flat: _Flat


class FlatSearcher:
    """Searches as `ImpactSearcher` does, with the same answers, and without Java; thread-safe.

    Vectors go in and come out as `Rows`, so that a search loads no scipy; `csr_matrix` is taken, too.

    Args:
        path, vocabulary: see `ImpactSearcher`.

    Raises:
        VocabularyMismatch, IndexNotFound, IndexVersion, CorruptIndex: see `ImpactSearcher`.
        IndexMismatch: it is of another kind, or its state has no such copy (see `has_flat`).
    """

    def __init__(self, path: str | Path, vocabulary: Sequence[str] | None = None) -> None:
        self.path = Path(path).absolute()
        self._expected = None if vocabulary is None else tuple(vocabulary)
        self._moving = threading.Lock()  # one thread at a time replaces what is open
        self._opened: _Opened | None = self._newest(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def _now(self) -> _Opened:
        """The state that is searched; BridgeError: the searcher is closed."""
        if self._opened is None:
            raise BridgeError.closed(self.path)
        return self._opened

    @contextlib.contextmanager
    def hold(self) -> Iterator[Self]:
        """See `ImpactSearcher.hold`."""
        held = copy.copy(self)
        held._opened = self._now
        try:
            yield held
        finally:
            held._opened = None

    def close(self) -> None:
        """See `ImpactSearcher.close`; the file stays mapped as long as a search uses it."""
        with self._moving:
            self._opened = None

    def __len__(self) -> int:
        return self.metadata.documents

    @property
    def metadata(self) -> IndexMetadata:
        """See `ImpactSearcher`."""
        return self._now.metadata

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """See `ImpactSearcher`."""
        return self._now.words

    @property
    def size(self) -> int:
        """The number D of documents, which are numbered from 0; deleted ones are not among them."""
        return len(self._now.flat)

    @property
    def state(self) -> str:
        """See `ImpactSearcher`."""
        return state_of(self.metadata)

    def search(
        self,
        queries: Rows | csr_matrix,
        k: int = 10,
        threads: int = 1,
        alpha: float = 1.0,
        allowed: NDArray[np.bool_] | AllowedRows | None = None,
    ) -> tuple[list[list[str]], list[NDArray[np.int64]]]:
        """See `ImpactSearcher.search`; queries are searched one after another, exactly at any alpha."""
        opened = self._now
        check_settings(k, threads, alpha)
        if isinstance(allowed, np.ndarray):
            allowed = self.allow(allowed)
        if allowed is not None:
            check_same_state(allowed.state, state_of(opened.metadata))
        whole = _whole(queries, len(opened.words))
        found = [
            opened.flat.best(*whole.row(row), k, None if allowed is None else allowed.mask)
            for row in range(whole.shape[0])
        ]
        return [opened.flat.names(best) for best, _ in found], [scores for _, scores in found]

    def allow(self, allowed: NDArray[np.bool_]) -> AllowedRows:
        """See `ImpactSearcher.allow`."""
        check_allowed(allowed, self.size)
        return AllowedRows(self.state, allowed.copy())

    def contributions(self, query: Rows | csr_matrix, ids: Sequence[str]) -> Rows:
        """See `ImpactSearcher.contributions`."""
        opened = self._now
        whole = _whole(query, len(opened.words))
        check_one_row(whole.shape[0])
        return opened.flat.added(self._numbers(ids), whole.indices, whole.data, len(opened.words))

    def vectors(self, ids: Sequence[str]) -> Rows:
        """See `ImpactSearcher.vectors`."""
        opened = self._now
        return opened.flat.rows(self._numbers(ids), len(opened.words))

    def numbers(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """See `ImpactSearcher.numbers`."""
        flat = self._now.flat
        if len(ids) <= _FEW:
            return np.array([flat.number(id) for id in ids], np.int64)
        return np.array([flat.every.get(id, -1) for id in ids], np.int64)

    def holding(self, columns: Sequence[int] | NDArray[Any]) -> NDArray[np.bool_]:
        """See `ImpactSearcher.holding`."""
        flat = self._now.flat
        held = np.zeros(len(flat), np.bool_)
        for column in columns:
            held[flat.postings(int(column))[0]] = True
        return held

    def frequencies(self) -> NDArray[np.int64]:
        """Return in how many documents each word is, [V]."""
        return np.diff(self._now.flat.starts).astype(np.int64)

    def ids(self) -> list[str]:
        """See `ImpactSearcher.ids`."""
        return list(self._now.flat.every)

    def refresh(self) -> bool:
        """See `ImpactSearcher.refresh`; IndexMismatch, too, if the new state has no copy."""
        with self._moving:
            opened = self._now
            newest = self._opened = self._newest(opened)
        return newest is not opened

    def _newest(self, opened: _Opened | None) -> _Opened:
        """Open the newest state of the index; begin again if a writer has replaced it meanwhile."""
        while True:
            metadata = read_metadata(self.path)
            if opened is not None:
                before = opened.metadata
                if state_of(metadata) == state_of(before):
                    return opened
                if (metadata.encoder, metadata.quantization) != (before.encoder, before.quantization):
                    raise made_anew(self.path)
            try:
                return self._open(metadata)
            except CorruptIndex:
                if read_metadata(self.path) == metadata:
                    raise

    def _open(self, metadata: IndexMetadata) -> _Opened:
        if not has_flat(metadata):
            raise IndexMismatch(f"the index at {self.path} has no copy that is searched without Java")
        words = read_words(self.path, metadata)
        if self._expected is not None:
            check_same_vocabulary(self.path, metadata, self._expected)
        name = flat_file(metadata)
        file = self.path / metadata.directory / name
        try:
            flat = _Flat(file, metadata.files[name])
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise CorruptIndex.at(self.path, [f"{file} is damaged: {reason}"]) from None
        counted = replace(metadata, documents=len(flat), postings=len(flat.documents))
        return _Opened(counted, words, flat)

    def _numbers(self, ids: Sequence[str]) -> NDArray[np.int64]:
        numbers = self.numbers(ids)
        if (numbers < 0).any():
            raise UnknownId.at(self.path, ids[int(np.argmax(numbers < 0))])
        return numbers


def _whole(queries: Rows | csr_matrix, width: int) -> Rows:
    """Return queries as they are searched; BadVectors: see `check_vectors`."""
    if isinstance(queries, Rows):
        try:
            queries.check()
        except ValueError as error:
            raise BadVectors(
                f"the rows are malformed ({error}): make them again from their entries"
            ) from None
        if queries.data.dtype == np.int32 and queries.shape[1] == width and (queries.data > 0).all():
            return queries
    from anserini_bridge.vectors import check_vectors

    return Rows.of(check_vectors(queries.csr() if isinstance(queries, Rows) else queries, width))


def open_searcher(path: str | Path, vocabulary: Sequence[str] | None = None) -> FlatSearcher | ImpactSearcher:
    """Return what searches the index at path: without Java, if it has a copy for that.

    For the arguments, and what is raised, see `ImpactSearcher`.
    """
    if has_flat(read_metadata(path)):
        with contextlib.suppress(IndexMismatch):  # a writer has just left the copy out
            return FlatSearcher(path, vocabulary)
    from anserini_bridge.searcher import ImpactSearcher

    return ImpactSearcher(path, vocabulary)
