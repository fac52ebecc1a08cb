"""Sparse vectors without Lucene: Seismic, kANNolo, SINDI, and brute force with scipy."""

from __future__ import annotations

import json
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


class Kannolo(Library):
    """A graph of neighbours over sparse vectors (Delfino et al., ECIR 2025); approximate, all in memory."""

    modules = ("kannolo",)
    pip = "kannolo"
    index = "kannolo"
    ef: int

    def build(self, staged: Path) -> None:
        from kannolo import SparsePlainHNSW

        corpus = self.corpus
        rows = corpus.rows(0, corpus.sizes.documents)
        ends = rows.indptr.astype(np.int64)
        index = SparsePlainHNSW.build_from_arrays(rows.indices, rows.data.astype(np.float32), ends)
        index.save(str(self.folder / "index"))

    def open(self) -> None:
        from kannolo import SparsePlainHNSW

        self.kannolo = SparsePlainHNSW.load(str(self.folder / "index"))

    def native(self, number: int) -> Any:
        row = self.corpus.queries[number]
        return row.indices.astype(np.int32), row.data.astype(np.float32)

    def search_one(self, query: Any, k: int) -> Any:
        return self.kannolo.search(*query, k, max(self.ef, k))

    def documents(self, hits: Any) -> list[int]:
        return [number for score, number in zip(*map(np.ndarray.tolist, hits), strict=True) if score > 0]


class Sindi(Library):
    """Inverted lists in windows, read value by value (VSAG's SINDI); exact unless lists are pruned."""

    modules = ("pyvsag",)
    pip = "pyvsag"
    index = "sindi"
    query_prune: float

    def _make(self) -> Any:
        import pyvsag

        pyvsag.set_logger_off()
        kept = {"term_id_limit": self.corpus.sizes.vocabulary, "doc_prune_ratio": 0.0}
        asked = {"dtype": "sparse", "metric_type": "ip", "dim": int(np.diff(self.corpus.starts).max())}
        return pyvsag.Index("sindi", json.dumps(asked | {"index_param": kept}))

    def build(self, staged: Path) -> None:
        rows = self.corpus.rows(0, self.corpus.sizes.documents)
        ids = np.arange(self.corpus.sizes.documents, dtype=np.int64)
        index = self._make()
        index.build(*_of_rows(rows), ids)
        index.save(str(self.folder / "index"))

    def open(self) -> None:
        self.sindi = self._make()
        self.sindi.load(str(self.folder / "index"))

    def native(self, number: int) -> Any:
        return _of_rows(self.corpus.queries[number])

    def search_one(self, query: Any, k: int) -> Any:
        asked = {"n_candidate": k, "query_prune_ratio": self.query_prune}
        return self.sindi.knn_search(*query, k, json.dumps({"sindi": asked}))

    def documents(self, hits: Any) -> list[int]:
        return [int(number) for number, far in zip(*map(np.ravel, hits), strict=True) if far < 1]


def _of_rows(rows: csr_matrix) -> tuple[Any, Any, Any]:
    """Return the arrays of a matrix as SINDI takes them."""
    return rows.indptr.astype(np.uint32), rows.indices.astype(np.uint32), rows.data.astype(np.float32)


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
