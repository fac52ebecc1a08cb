"""The documents and queries of a benchmark, in a folder that its processes share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, load_npz, save_npz

SLICE = 100_000  # documents held at a time


@dataclass(frozen=True)
class Sizes:
    """N documents over V terms, with P postings."""

    documents: int
    vocabulary: int
    postings: int


class Corpus:
    """The documents and queries in a folder; documents are read on demand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sizes = Sizes(**json.loads((folder / "sizes.json").read_text()))
        documents, postings = self.sizes.documents, self.sizes.postings
        self.starts = np.memmap(folder / "starts", np.int64, "r", shape=(documents + 1,))
        self._terms = np.memmap(folder / "terms", np.int32, "r", shape=(postings,))
        self._weights = np.memmap(folder / "weights", np.int32, "r", shape=(postings,))

    @cached_property
    def queries(self) -> csr_matrix:
        """Quantised, int32 [n, V]."""
        return csr_matrix(load_npz(self.folder / "queries.npz"))

    @property
    def words(self) -> list[str]:
        """The V terms by name: t0, t1 and so on."""
        return [f"t{term}" for term in range(self.sizes.vocabulary)]

    def slices(self) -> Iterator[tuple[int, csr_matrix]]:
        """Yield the number of the first document and the vectors, int32 [n <= SLICE, V], slice by slice."""
        for start in range(0, self.sizes.documents, SLICE):
            yield start, self.rows(start, min(start + SLICE, self.sizes.documents))

    def rows(self, start: int, end: int) -> csr_matrix:
        """Return the vectors of the documents from start up to end, int32 [end - start, V]."""
        ends = self.starts[start : end + 1]
        part = slice(int(ends[0]), int(ends[-1]))
        arrays = np.array(self._weights[part]), np.array(self._terms[part]), ends - ends[0]
        return csr_matrix(arrays, shape=(end - start, self.sizes.vocabulary))

    def scores(self, query: int, documents: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the dot products of a query with some documents, int64 [n]."""
        row = self.queries[query]
        weights = np.zeros(self.sizes.vocabulary, np.int64)
        weights[row.indices] = row.data
        found = [slice(self.starts[document], self.starts[document + 1]) for document in documents]
        return np.array([weights[self._terms[part]] @ self._weights[part] for part in found], np.int64)

    @property
    def dimensions(self) -> int:
        """D of the dense vectors; 0 if there are none."""
        file = self.folder / "dense"
        return file.stat().st_size // (4 * self.sizes.documents) if file.exists() else 0

    @property
    def dense(self) -> NDArray[np.float32]:
        """Unit vectors of the documents, [N, D], read from disk on demand."""
        shape = self.sizes.documents, self.dimensions
        return np.memmap(self.folder / "dense", np.float32, "r", shape=shape)

    @property
    def dense_queries(self) -> NDArray[np.float32]:
        """[n, D]."""
        queries: NDArray[np.float32] = np.load(self.folder / "dense_queries.npy")
        return queries

    @cached_property
    def wanted(self) -> NDArray[np.int64]:
        """The number of the photo that each query is a caption of, [n]; -1 if that is not known."""
        file = self.folder / "wanted.npy"
        return np.load(file) if file.exists() else np.full(self.queries.shape[0], -1)


def write_documents(folder: Path, documents: Iterable[csr_matrix]) -> None:
    """Write quantised vectors, [n, V], chunk by chunk."""
    folder.mkdir(parents=True, exist_ok=True)
    starts = [np.zeros(1, np.int64)]
    vocabulary = 0
    with (folder / "terms").open("wb") as terms, (folder / "weights").open("wb") as weights:
        for chunk in documents:
            chunk.indices.astype(np.int32).tofile(terms)
            chunk.data.astype(np.int32).tofile(weights)
            starts.append(starts[-1][-1] + chunk.indptr[1:].astype(np.int64))
            vocabulary = chunk.shape[1]
    np.concatenate(starts).tofile(folder / "starts")
    sizes = Sizes(sum(map(len, starts)) - 1, vocabulary, int(starts[-1][-1]))
    (folder / "sizes.json").write_text(json.dumps(asdict(sizes)))


def write_dense(folder: Path, vectors: Iterable[NDArray[np.float32]]) -> None:
    """Write the dense vectors, [n, D], of the documents in a folder, chunk by chunk."""
    unfinished = folder / "dense.unfinished"
    with unfinished.open("wb") as file:
        for rows in vectors:
            rows.astype(np.float32).tofile(file)
    unfinished.rename(folder / "dense")


def write_queries(
    folder: Path,
    queries: csr_matrix,
    dense_queries: NDArray[np.float32] | None = None,
    wanted: Sequence[int] | None = None,
) -> None:
    """Write quantised queries, [n, V], dense ones, [n, D], and `Corpus.wanted`; they replace earlier ones."""
    save_npz(folder / "queries.npz", queries)
    np.save(folder / "wanted.npy", np.array([-1] * queries.shape[0] if wanted is None else wanted, np.int64))
    if dense_queries is not None:
        np.save(folder / "dense_queries.npy", dense_queries)
