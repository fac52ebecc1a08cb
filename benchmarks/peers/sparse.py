"""Sparse vectors without Lucene: Seismic, with and without a graph, and brute force with scipy."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix, load_npz, save_npz, vstack

from benchmarks.peers.library import Library


class Seismic(Library):
    """Clustered inverted lists with summaries (Bruch et al., SIGIR 2024); approximate, all in memory."""

    modules = ("seismic",)
    pip = "pyseismic-lsr"
    index = "seismic"
    neighbours: ClassVar[int] = 0  # of a document, in the graph
    query_cut: int
    heap_factor: float

    def stage(self, folder: Path) -> None:
        """Write the number of vectors, then of each its length, terms and weights, in four bytes each."""
        with (folder / "documents.bin").open("wb") as file:
            np.array(self.corpus.sizes.documents, "<u4").tofile(file)
            for _, rows in self.corpus.slices():
                lengths = np.diff(rows.indptr)
                starts = np.concatenate([[0], np.cumsum(1 + 2 * lengths)])
                flat = np.empty(starts[-1], "<u4")
                within = np.arange(rows.nnz) - np.repeat(rows.indptr[:-1], lengths)
                terms = np.repeat(starts[:-1] + 1, lengths) + within
                flat[starts[:-1]] = lengths
                flat[terms] = rows.indices
                flat[terms + np.repeat(lengths, lengths)] = rows.data.astype("<f4").view("<u4")
                flat.tofile(file)

    def build(self, staged: Path) -> None:
        from seismic import SeismicIndexRaw

        # By default a list keeps 3,500 postings and loses the rest, so lists must grow with the corpus.
        postings = max(3_500, 4 * self.corpus.sizes.postings // self.corpus.sizes.vocabulary)
        index = SeismicIndexRaw.build(
            str(staged / "documents.bin"), n_postings=postings, nknn=self.neighbours
        )
        index.save(str(self.folder / "index"))

    def open(self) -> None:
        from seismic import SeismicIndexRaw

        (file,) = self.folder.iterdir()
        self.seismic = SeismicIndexRaw.load(str(file))

    def native(self, number: int) -> Any:
        row = self.corpus.queries[number]
        known = row.indices < self.seismic.dim  # a term that no document has would kill the process
        return row.indices[known].astype(np.int32), row.data[known].astype(np.float32)

    def search_one(self, query: Any, k: int) -> Any:
        return self.seismic.search(*query, k, self.query_cut, self.heap_factor, self.neighbours, True)

    def documents(self, hits: Any) -> list[int]:
        return [number for score, number in hits if score > 0]


class SeismicKnn(Seismic):
    """Seismic that also looks at the neighbours of what it found (Bruch et al., CIKM 2024)."""

    index = "seismic-knn"
    neighbours = 10


class Scipy(Library):
    """Multiplies a query with all documents, and takes the best entries of the product."""

    modules = ("scipy",)
    pip = "scipy"
    index = "scipy"

    def build(self, staged: Path) -> None:
        rows = vstack([rows for _, rows in self.corpus.slices()], format="csr")
        save_npz(self.folder / "columns.npz", rows.T.tocsr(), compressed=False)

    def open(self) -> None:
        self.columns = csr_matrix(load_npz(self.folder / "columns.npz"))  # [V, N]

    def native(self, number: int) -> Any:
        return self.corpus.queries[number]

    def search_one(self, query: Any, k: int) -> Any:
        scores = query @ self.columns
        kept = min(k, scores.nnz)
        best = np.argpartition(-scores.data, kept - 1)[:kept] if kept else np.empty(0, np.int64)
        best = best[np.argsort(-scores.data[best], kind="stable")]
        return scores.indices[best], scores.data[best]

    def documents(self, hits: Any) -> list[int]:
        found: list[int] = hits[0].tolist()
        return found
