"""Faiss: exact search, a graph (HNSW), and lists (IVF) of vectors in 8 bits a dimension, or in 64 bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import faiss
import numpy as np

from benchmarks.corpus.corpus import SLICE
from benchmarks.peers.library import Library
from lexlip.search.engines.faiss_index import SAMPLE, Codes, make_faiss, make_lists, products


class _Faiss(Library):
    """Cosines of unit vectors, as inner products."""

    modules = ("faiss",)
    pip = "faiss-cpu"
    dense = True

    def make(self) -> Any:
        """Return an empty index, trained if it needs training."""
        raise NotImplementedError

    def build(self, staged: Path) -> None:
        faiss.omp_set_num_threads(self.threads)
        index = self.make()
        vectors = self.corpus.dense
        for start in range(0, len(vectors), SLICE):
            index.add(np.ascontiguousarray(vectors[start : start + SLICE]))
        faiss.write_index(index, str(self.folder / "index.faiss"))

    def open(self) -> None:
        faiss.omp_set_num_threads(self.threads)
        self.faiss: Any = faiss.read_index(str(self.folder / "index.faiss"))
        self.queries = self.corpus.dense_queries

    def native(self, number: int) -> Any:
        return self.queries[number : number + 1]

    def search_one(self, query: Any, k: int) -> Any:
        return self.faiss.search(query, k)

    def batch(self, queries: Sequence[Any]) -> Any:
        return np.concatenate(queries)

    def search_all(self, batch: Any, k: int) -> Any:
        return self.faiss.search(batch, k)

    def documents(self, hits: Any) -> list[int]:
        return [number for number in hits[1].ravel().tolist() if number >= 0]

    def versions(self) -> dict[str, str]:
        return {"faiss": faiss.__version__}


class Flat(_Faiss):
    """Every vector is compared."""

    index = "faiss-flat"

    def make(self) -> Any:
        return make_faiss(self.corpus.dimensions, "flat")

    def search_all(self, batch: Any, k: int) -> Any:
        with products():
            return super().search_all(batch, k)


class HNSW(_Faiss):
    """A graph of neighbours; efSearch candidates are followed."""

    index = "faiss-hnsw"

    def make(self) -> Any:
        return make_faiss(self.corpus.dimensions, "hnsw")

    def set(self, **setting: Any) -> None:
        self.faiss.hnsw.efSearch = setting["efSearch"]


class IVF(_Faiss):
    """About 2 · sqrt(N) lists of vectors with 8 bits per dimension; nprobe of them are read."""

    index = "faiss-ivf-sq8"
    codes: ClassVar[Codes] = "SQ8"

    def make(self) -> Any:
        vectors = self.corpus.dense
        index = make_lists(self.corpus.dimensions, len(vectors), self.codes)
        index.train(np.ascontiguousarray(vectors[: SAMPLE * index.nlist]))  # which are in no order
        return index

    def set(self, **setting: Any) -> None:
        self.faiss.nprobe = setting["nprobe"]


class IVFPQ(IVF):
    """The same lists, of vectors in 64 bytes: product quantization of their differences from the centres."""

    index = "faiss-ivf-pq"
    codes = "PQ"
