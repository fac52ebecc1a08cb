"""Dense vectors in Faiss: compared with every query exhaustively (flat), or through a graph (HNSW).

To compare with, there are compressed ones: in 8 bits a dimension, and in lists (IVF) of 8 bits a dimension or
of product quantization (PQ).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Self

import faiss
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from anserini_bridge import CorruptIndex, UnknownId
from anserini_bridge.given_files import check_files, check_form, read_json
from anserini_bridge.storage import sync
from lexlip.machine.resources import cores
from lexlip.registry import Metric
from lexlip.retrieval.first_stage import Results

Ann = Literal["flat", "hnsw"]
Codes = Literal["SQ8", "PQ"]
"""What lists keep of a vector: 8 bits a dimension, or the nearest of 256 centres of up to 64 parts."""

LINKS, EF_CONSTRUCTION, EF_SEARCH = 32, 80, 128
"""HNSW: neighbours of a vector in the graph, and candidates kept while building and while searching."""

SAMPLE = 64  # vectors that lists learn from, for each list
NPROBE = 16  # lists that a search reads
PQ_CENTRES = 256  # so many vectors are the fewest to learn them from

BATCH = 256  # queries that are searched at a time, if there are many
VECTORS, IDS = "vectors.faiss", "ids.json"


class FaissIndex:
    """Dense vectors with their ids.

    Args:
        vectors, ids: see `make_faiss`, and what it holds already.
        metric: "cosine" compares unit vectors, "dot" vectors as they are.
        batch: queries that are searched at a time. One is what a single user waits for; a flat index
            multiplies several as matrices, which is many times faster.
    """

    def __init__(
        self,
        vectors: faiss.Index,
        ids: Sequence[str] = (),
        metric: Metric = "cosine",
        threads: int = 1,
        batch: int = 1,
    ) -> None:
        self.vectors, self.ids = vectors, list(ids)
        self.metric, self.threads, self.batch = metric, threads, batch

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, ids: Sequence[str], vectors: csr_matrix) -> None:
        """Add n documents, [n, D]; HNSW is built on all cores."""
        with _threads(cores()):
            self.vectors.add(self._rows(vectors))
        self.ids += ids

    def learn(self, vectors: csr_matrix) -> None:
        """Learn how to compress from vectors like those that will be added, [n, D], before the first is."""
        with _threads(cores()):
            self.vectors.train(self._rows(vectors))

    def save(self, folder: Path) -> None:
        """Write vectors.faiss and ids.json; they are durable when this returns."""
        faiss.write_index(self.vectors, str(folder / VECTORS))
        (folder / IDS).write_text(json.dumps(self.ids, separators=(",", ":")), encoding="utf-8")
        for name in (VECTORS, IDS):
            sync(folder / name)

    def close(self) -> None:
        """Do nothing: what was loaded needs no file."""

    @classmethod
    def load(cls, folder: Path, metric: Metric = "cosine", threads: int = 1, batch: int = 1) -> Self:
        """Load what `save` wrote; CorruptIndex: a file is missing or damaged."""
        try:
            check_files(folder)
            ids: list[str] = read_json(folder / IDS)
            check_form(ids, list[str], IDS)
            vectors = faiss.read_index(str(folder / VECTORS))
            if vectors.ntotal != len(ids):
                raise ValueError(f"{vectors.ntotal} vectors for {len(ids)} ids")
        except (OSError, ValueError, RuntimeError, MemoryError) as error:
            why = " ".join(str(error).split())[-200:]
            raise CorruptIndex(f"the index in {folder} is damaged ({why}): build the index again") from None
        return cls(vectors, ids, metric, threads, batch)

    def search(self, queries: csr_matrix, k: int, allowed: NDArray[np.bool_] | None = None) -> Results:
        """See `lexlip.retrieval.first_stage.Engine`; scores are cosines or dot products, queries [n, D].

        `allowed`, bool [len(self)], are the documents that may be found; None: all.
        """
        rows = self._rows(queries)
        k = min(k, len(self.ids))
        ids: list[list[str]] = []
        scores: list[NDArray[np.float32]] = []
        with _threads(self.threads), products(self.batch > 1):
            for start in range(0, len(rows), self.batch):
                part = rows[start : start + self.batch]
                for best, found in zip(*self._search(part, k, allowed), strict=True):
                    there = found >= 0  # a graph may lead to fewer than k
                    ids.append([self.ids[row] for row in found[there]])
                    scores.append(best[there])
        return ids, scores

    def vector(self, id: str) -> csr_matrix:
        """Return the vector of a document, [1, D]; UnknownId: there is none."""
        try:
            number = self.ids.index(id)
        except ValueError:
            raise UnknownId(f"the index holds no document with the id {id!r}") from None
        return csr_matrix(self.vectors.reconstruct(number)[None])

    def _search(
        self, rows: NDArray[np.float32], k: int, allowed: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return scores and numbers of documents, [n, k]."""
        if k == 0:
            return np.empty((len(rows), 0), np.float32), np.empty((len(rows), 0), np.int64)
        found: tuple[NDArray[np.float32], NDArray[np.int64]]
        if allowed is None:
            found = self.vectors.search(rows, k)
            return found
        selector = faiss.IDSelectorBatch(np.flatnonzero(allowed))
        library: Any = faiss  # whose types lack these
        if isinstance(self.vectors, faiss.IndexHNSW):
            parameters = library.SearchParametersHNSW(sel=selector, efSearch=max(EF_SEARCH, k))
        else:
            parameters = library.SearchParameters(sel=selector)
        found = self.vectors.search(rows, k, params=parameters)
        return found

    def _rows(self, vectors: csr_matrix) -> NDArray[np.float32]:
        """Return the vectors, [n, D], as they are compared."""
        rows: NDArray[np.float32] = vectors.toarray().astype(np.float32)  # a copy
        if self.metric == "cosine":
            rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        return rows


def make_faiss(dimensions: int, ann: Ann = "flat") -> faiss.Index:
    """Return an empty Faiss index for inner products of vectors [D].

    "flat" is exact; "hnsw" searches in a fraction of the time and misses some documents.
    """
    if ann == "flat":
        return faiss.IndexFlatIP(dimensions)
    index = faiss.IndexHNSWFlat(dimensions, LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction, index.hnsw.efSearch = EF_CONSTRUCTION, EF_SEARCH
    return index


def make_int8(dimensions: int) -> faiss.Index:
    """Return an empty index of vectors [D] in 8 bits a dimension, which compares all; it must learn."""
    library: Any = faiss  # whose types lack the kind of quantizer
    index: faiss.Index = library.IndexScalarQuantizer(
        dimensions, library.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    )
    return index


def lists_for(documents: int) -> int:
    """Return in how many lists so many documents are divided: about 2 · sqrt(n), a power of two."""
    return int(2 ** round(np.log2(2 * documents**0.5)))


def make_lists(dimensions: int, documents: int, codes: Codes) -> Any:
    """Return an empty index of vectors [D] in lists, which must learn; a search reads the nearest lists."""
    parts = max(number for number in range(1, 65) if dimensions % number == 0)
    # not polysemous ("np"), which takes minutes to train and is for another search
    form = f"PQ{parts}np" if codes == "PQ" else codes
    index: Any = faiss.index_factory(
        dimensions, f"IVF{lists_for(documents)},{form}", faiss.METRIC_INNER_PRODUCT
    )
    index.nprobe = NPROBE
    for clustering in (index.cp, index.pq.cp) if codes == "PQ" else (index.cp,):
        clustering.min_points_per_centroid = 1  # below that Faiss prints a warning for each clustering
    return index


@contextmanager
def faiss_engine(
    ids: Sequence[str], vectors: csr_matrix, metric: Metric = "cosine", ann: Ann = "flat"
) -> Iterator[FaissIndex]:
    """Give a FaissIndex of n documents, [n, D], for a `with` block; it searches many queries at a time."""
    index = FaissIndex(make_faiss(vectors.shape[1], ann), (), metric, cores(), BATCH)
    index.add(ids, vectors)
    yield index


@contextmanager
def products(wanted: bool = True) -> Iterator[None]:
    """Let flat indexes multiply matrices, which Faiss 1.15 only does for 128,000 numbers or more."""
    before = faiss.cvar.distance_compute_blas_threshold
    faiss.cvar.distance_compute_blas_threshold = 1 if wanted else before
    try:
        yield
    finally:
        faiss.cvar.distance_compute_blas_threshold = before


@contextmanager
def _threads(number: int) -> Iterator[None]:
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(number)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
