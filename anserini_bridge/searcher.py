"""Searches an impact index: sparse integer queries in, ids and exact integer scores out."""

from __future__ import annotations

import contextlib
import copy
import struct
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

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
from anserini_bridge.errors import CorruptIndex, UnknownId
from anserini_bridge.integrity import LUCENE_FOLDER
from anserini_bridge.jvm import java_class, java_errors
from anserini_bridge.metadata import IndexMetadata, check_same_vocabulary, read_metadata, read_words
from anserini_bridge.sparse_rows import Rows
from anserini_bridge.storage import check_data
from anserini_bridge.vectors import (
    check_vectors,
    pack_ints,
    pack_matrix,
    pack_queries,
    pack_strings,
    unpack_strings,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_MAX_HITS = 2**20  # of one call to Java, which limits the memory that a batch of queries takes


Used = TypeVar("Used")


@dataclass(frozen=True)
class _Opened:
    """One state of the index; replaced as a whole, so that a search sees either the old or the new one."""

    folder: _Folder
    metadata: IndexMetadata
    size: int
    words: tuple[str, ...]

    @property
    def java(self) -> Any:
        """Java's searcher, open as long as this object is used, or until `ImpactSearcher.close`."""
        return self.folder.java


class _Folder:
    """Java's searcher of one folder, closed as soon as no search of any thread uses it."""

    def __init__(self, path: Path, java: Any) -> None:
        self.java = java
        self.close = weakref.finalize(self, _close, path, java)  # does it once
        self.close.atexit = False  # Java ends with the program


@dataclass(frozen=True)
class AllowedDocuments:
    """Documents that searches of one state of an index may find, see `ImpactSearcher.allow`.

    Attributes:
        count: how many they are.
    """

    state: str
    count: int
    java: Any


class ImpactSearcher:
    """Searches an index; may be used by several threads at once.

    ::

        with ImpactSearcher(path, vocabulary=words) as searcher:
            ids, scores = searcher.search(queries, k=10)  # csr_matrix [n, V] of whole weights

    The score of a document is the sum over shared words of query weight times document weight (LexLIP,
    equation 24), in 64-bit integers: exact for every weight that is accepted (up to 2^31 - 1).

    Args:
        path: the index's folder.
        vocabulary: the words that the index must have; None accepts any.
        without: names of damaged segments, whose documents are left out; such a searcher is not refreshed.

    Raises:
        VocabularyMismatch: the index was made with another vocabulary.
        IndexNotFound, IndexMismatch, IndexVersion, CorruptIndex: see `read_metadata`.
        NoJava, NoJar, JVMConflict: see `start_jvm`.
    """

    _lucene = LUCENE_FOLDER  # in the data folder

    def __init__(
        self, path: str | Path, vocabulary: Sequence[str] | None = None, without: Iterable[str] = ()
    ) -> None:
        self.path = Path(path).absolute()
        self._without = " ".join(without).encode()
        self._expected = None if vocabulary is None else tuple(vocabulary)
        self._moving = threading.Lock()  # one thread at a time replaces what is open
        self._opened = self._with_newest(self._open)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @contextlib.contextmanager
    def hold(self) -> Iterator[Self]:
        """Give a searcher of this one's present state, in which a refresh or `close` here changes nothing.

        So that several calls, such as `search` and then `contributions`, answer from the same documents.
        """
        opened = self._opened
        java = self._ask(opened, "hold")
        held = copy.copy(self)
        held._opened = self._counted(_Folder(self.path, java), opened.metadata, opened.words)
        try:
            yield held
        finally:
            held._opened.folder.close()  # without waiting for a refresh

    def close(self) -> None:
        """Close the index; searches that run in other threads still finish."""
        with self._moving:
            self._opened.folder.close()

    def __len__(self) -> int:
        """Return the number of documents that are not deleted."""
        return self.metadata.documents

    @property
    def metadata(self) -> IndexMetadata:
        """The metadata of the index, with the counts of the state that is searched."""
        return self._opened.metadata

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The words, by column of the vectors."""
        return self._opened.words

    @property
    def size(self) -> int:
        """The number D of documents with the deleted ones, which are numbered from 0 in each state."""
        return self._opened.size

    @property
    def state(self) -> str:
        """A name of the state that is searched; another state of this index has another one."""
        return state_of(self.metadata)

    def search(
        self,
        queries: csr_matrix | Rows,
        k: int = 10,
        threads: int = 1,
        alpha: float = 1.0,
        allowed: NDArray[np.bool_] | AllowedDocuments | None = None,
    ) -> tuple[list[list[str]], list[NDArray[np.int64]]]:
        """Return the k best documents for each of n queries, by the dot product (Eq. 24 of LexLIP).

        Args:
            queries: [n, V], whole weights >= 0.
            k: hits per query. Only documents that share a word with the query are hits, so there may be
                fewer, or none.
            threads: queries searched at the same time.
            alpha: 1 finds the k best. A lower value skips each part of the index whose highest possible
                score, times alpha, is below those of the k best so far: that is faster, and may miss some of
                the k best. Scores are exact at any alpha.
            allowed: bool [D], the documents that may be found, by their numbers; None: all. For many searches
                among the same documents, let `allow` prepare them once. Numbers are those of one state, so
                ask for them and search inside one `hold`.

        Returns:
            For each query the ids, best first, and their scores. Equal scores come in the order in which
            the documents were added.

        Raises:
            BadVectors: an argument is invalid.
            CorruptIndex: a file of the index is damaged.
        """
        opened = self._opened
        check_settings(k, threads, alpha)
        queries = queries.csr() if isinstance(queries, Rows) else queries
        if isinstance(allowed, np.ndarray):
            allowed = self.allow(allowed, for_many=False)
        if allowed is not None:
            check_same_state(allowed.state, self.state)
        chosen = None if allowed is None else allowed.java
        k = min(int(k), max(1, len(self)))
        step = max(int(threads), _MAX_HITS // k)
        ids: list[list[str]] = []
        scores: list[NDArray[np.int64]] = []

        def ask(packed: bytes, rows: int) -> bool:
            """Return whether Java accepts the queries."""
            with java_errors(self.path):
                answer = (
                    _java()
                    .search(opened.java, packed, rows, k, int(threads), float(alpha), chosen)
                    .tostring()
                )
            if answer:
                _unpack_hits(answer, rows, ids, scores)
            return bool(answer)

        packed = pack_queries(queries, len(opened.words))
        if packed is None or not 0 < queries.shape[0] <= step or not ask(packed, queries.shape[0]):
            queries = check_vectors(queries, len(opened.words))
            for start in range(0, queries.shape[0], step):
                part = queries[start : start + step]
                ask(b"".join(pack_matrix(part)), part.shape[0])
        return ids, scores

    def allow(self, allowed: NDArray[np.bool_], for_many: bool = True) -> AllowedDocuments:
        """Prepare documents that may be found for searches of this state.

        For many searches, if at most three quarters of all documents are allowed, these get postings of their
        own, in memory: those of a word when a query first has it, which takes up to some milliseconds among a
        million.

        Args:
            allowed: bool [D], by the documents' numbers; see `search`.
            for_many: False prepares them for a single search.

        Raises:
            BadVectors: it is of another type or length.
        """
        opened = self._opened
        check_allowed(allowed, opened.size)
        bits = np.packbits(allowed, bitorder="little").tobytes()
        java = self._ask(opened, "allow", bits, for_many)
        return AllowedDocuments(self.state, int(np.count_nonzero(allowed)), java)

    def contributions(self, query: csr_matrix | Rows, ids: Sequence[str]) -> csr_matrix:
        """Return what each word adds to the scores of n documents.

        Args:
            query: [1, V], whole weights >= 0.
            ids: n ids.

        Returns:
            [n, V] of int64; the sum of a row is the document's score in `search`.

        Raises:
            BadVectors: the query is invalid.
            UnknownId: the index does not hold one of the ids.
        """
        from scipy.sparse import csr_matrix

        opened = self._opened
        query = check_vectors(query.csr() if isinstance(query, Rows) else query, len(opened.words))
        check_one_row(query.shape[0])
        weights = self._weights(opened, ids, query.indices)
        return csr_matrix(weights.multiply(query.astype(np.int64)))

    def vectors(self, ids: Sequence[str]) -> csr_matrix:
        """Return the weights of n documents as they were indexed, [n, V] of int64.

        Every word of the vocabulary is looked up once, for all ids together.

        Raises:
            UnknownId: the index does not hold one of the ids.
        """
        opened = self._opened
        return self._weights(opened, ids, np.arange(len(opened.words)))

    def numbers(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """Return the number of each of n documents in this state, int64 [n]; -1 if it holds no such id."""
        numbers = self._ask(self._opened, "find", *pack_strings(ids))
        return np.array(numbers, dtype=np.int64).reshape(len(ids))

    def holding(self, columns: Sequence[int] | NDArray[Any]) -> NDArray[np.bool_]:
        """Return which documents have at least one of some words, bool [D]."""
        opened = self._opened
        bits = self._ask(opened, "holding", pack_ints(np.asarray(columns, dtype=np.int64))).tostring()
        every = np.unpackbits(np.frombuffer(bits, np.uint8), count=opened.size, bitorder="little")
        return every.astype(np.bool_)

    def frequencies(self) -> NDArray[np.int64]:
        """Return in how many documents each word is, [V], with deleted ones until Lucene merges them away."""
        return np.frombuffer(self._ask(self._opened, "frequencies").tostring(), "<i4").astype(np.int64)

    def ids(self) -> list[str]:
        """Return the ids of all documents that are not deleted, in no particular order."""
        answer = self._ask(self._opened, "ids").tostring()
        (count,) = struct.unpack_from("<i", answer)
        return unpack_strings(answer[4 + 4 * count :], struct.unpack_from(f"<{count}i", answer, 4))

    def refresh(self) -> bool:
        """Move to the newest state of the index; return whether there was a newer one.

        Raises:
            IndexMismatch: it was made with another model or in another way; the old state stays open.
            BridgeError: the new state cannot be opened; the old one stays open.
        """
        with self._moving:
            return self._with_newest(self._move)

    def _move(self, metadata: IndexMetadata) -> bool:
        opened = self._opened
        before = opened.metadata
        if (metadata.directory, metadata.created) != (before.directory, before.created):
            if (metadata.encoder, metadata.quantization) != (before.encoder, before.quantization):
                raise made_anew(self.path)
            self._opened = self._open(metadata)
            return True
        newer = self._ask(opened, "refresh", metadata.commit.encode())
        if newer:
            self._opened = self._counted(opened.folder, metadata, opened.words)
        return bool(newer)

    def _read(self) -> IndexMetadata:
        """Return what the index says about itself now."""
        return read_metadata(self.path)

    def _words(self, metadata: IndexMetadata) -> tuple[str, ...]:
        """Return the words of the index; VocabularyMismatch: they are not those that it must have."""
        words = read_words(self.path, metadata)
        if self._expected is not None:
            check_same_vocabulary(self.path, metadata, self._expected)
        return words

    def _open(self, metadata: IndexMetadata) -> _Opened:
        words = self._words(metadata)
        folder = self.path / metadata.directory / self._lucene
        check_data(self.path, f"{metadata.directory}/{self._lucene}")
        with java_errors(self.path):
            java = _java()(
                str(folder).encode(), metadata.commit.encode(), *pack_strings(words), self._without
            )
        return self._counted(_Folder(self.path, java), metadata, words)

    def _with_newest(self, use: Callable[[IndexMetadata], Used]) -> Used:
        """Use the newest state of the index; begin again if a writer has replaced it meanwhile."""
        while True:
            metadata = self._read()
            try:
                return use(metadata)
            except CorruptIndex:
                if self._read() == metadata:
                    raise

    def _counted(self, folder: _Folder, metadata: IndexMetadata, words: tuple[str, ...]) -> _Opened:
        """Return a state of the index, with its own counts in the metadata."""
        documents, postings, size = self._ask(folder, "counts")
        return _Opened(folder, replace(metadata, documents=documents, postings=postings), size, words)

    def _ask(self, opened: _Opened | _Folder, method: str, *arguments: object) -> Any:
        """Return what a static method of Java's class says of a searcher."""
        with java_errors(self.path):
            return getattr(_java(), method)(opened.java, *arguments)

    def _weights(self, opened: _Opened, ids: Sequence[str], columns: NDArray[Any]) -> csr_matrix:
        """Return the weights of some words in some documents, [len(ids), V]."""
        from scipy.sparse import csr_matrix

        answer = self._ask(opened, "weights", *pack_strings(ids), pack_ints(columns)).tostring()
        numbers = np.frombuffer(answer, "<i4")
        documents, triples = numbers[: len(ids)], numbers[len(ids) :].reshape(-1, 3)
        if (documents < 0).any():
            raise UnknownId.at(self.path, ids[int(np.argmax(documents < 0))])
        rows, positions, weights = triples.T
        return csr_matrix(
            (weights.astype(np.int64), (rows, columns[positions])), shape=(len(ids), len(opened.words))
        )


def _java() -> Any:
    """Return Java's class, with the static methods that take a searcher first: thread-safe, see there."""
    return java_class("impact.Searcher")


def _close(path: Path, java: Any) -> None:
    """Close Java's searcher; further calls are refused, what runs still finishes."""
    if not sys.is_finalizing():
        with java_errors(path):
            _java().close(java)


def _unpack_hits(answer: bytes, queries: int, ids: list[list[str]], scores: list[NDArray[np.int64]]) -> None:
    """Append the ids and scores of each query; the layout is that of impact.Searcher.search."""
    limits = [0, *accumulate(struct.unpack_from(f"<{queries}i", answer))]
    total = limits[-1]
    values = np.frombuffer(answer, "<i8", total, offset=4 * queries).astype(np.int64)
    ends = struct.unpack_from(f"<{total}i", answer, 4 * queries + 8 * total)
    names = unpack_strings(answer[4 * queries + 12 * total :], ends)
    for start, end in pairwise(limits):
        ids.append(names[start:end])
        scores.append(values[start:end])
