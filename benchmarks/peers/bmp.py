"""Block-Max Pruning (Mallia et al., SIGIR 2024): blocks of documents by decreasing bound; all in memory."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, load_npz, save_npz, vstack

from benchmarks.peers.library import Library, terms_and_weights
from benchmarks.peers.lucene import LexLIP

WEIGHT = 255  # the greatest of a document's term: 8 bits
QUERY_WEIGHT = 32  # the greatest of a query's term; the library itself would round up what it scales down
BLOCK = 32  # documents that share a bound


class BMP(Library):
    """Approximate here, as it takes small weights: 1 to 255 in a document, 1 to 32 in a query.

    Weights are scaled to that and rounded. Bounds are of use only if similar documents share a block, and the
    library leaves their order to others (the authors used graph bisection): documents come in the order in
    which `ImpactWriter` stores them. Finding that is not timed.
    """

    modules = ("bmp", "anserini_bridge", "jnius_config")
    pip = "bmp"
    index = "bmp"
    alpha: float

    def stage(self, folder: Path) -> None:
        """Write the documents in their new order, [N, V] with 8-bit weights, and their numbers."""
        order = self._order(folder)
        rows = csr_matrix(vstack([rows for _, rows in self.corpus.slices()], format="csr")[order])
        rows.data = rounded(rows.data, WEIGHT)
        save_npz(folder / "documents.npz", rows, compressed=False)
        np.save(folder / "numbers.npy", order)

    def _order(self, folder: Path) -> NDArray[np.int64]:
        """Return the numbers of the documents in the order of this project's own index."""
        from anserini_bridge import ImpactSearcher

        with TemporaryDirectory(dir=folder) as place:
            LexLIP(self.corpus, Path(place), self.threads).build(folder)
            with ImpactSearcher(Path(place)) as searcher:
                places = searcher.numbers([str(number) for number in range(self.corpus.sizes.documents)])
        return np.argsort(places)

    def build(self, staged: Path) -> None:
        from bmp import Indexer

        words = self.corpus.words
        indexer = Indexer(str(self.folder / "index"), bsize=BLOCK, compress_range=False)
        rows, numbers = csr_matrix(load_npz(staged / "documents.npz")), np.load(staged / "numbers.npy")
        for number, (terms, weights) in zip(numbers.tolist(), terms_and_weights(rows), strict=True):
            vector = {words[term]: weight for term, weight in zip(terms, weights, strict=True)}
            indexer.add_document(str(number), vector)
        indexer.finish()

    def open(self) -> None:
        from bmp import Searcher

        self.searcher = Searcher(str(self.folder / "index"))

    def native(self, number: int) -> dict[str, float]:
        row = self.corpus.queries[number]
        weights = rounded(row.data, QUERY_WEIGHT).tolist()
        return {f"t{term}": float(weight) for term, weight in zip(row.indices, weights, strict=True)}

    def search_one(self, query: Any, k: int) -> Any:
        try:
            return self.searcher.search(query, k=k, alpha=self.alpha, beta=1.0)
        except BaseException as error:  # it panics if no block can be better than its first estimate
            if type(error).__name__ != "PanicException":
                raise
            return [], []

    def documents(self, hits: Any) -> list[int]:
        return [int(id) for id in hits[0]]


def rounded(weights: NDArray[np.integer], greatest: int) -> NDArray[np.int64]:
    """Return weights > 0, scaled so that their greatest is `greatest`, as whole numbers from 1 on."""
    scaled = np.rint(weights * (greatest / np.max(weights, initial=1)))
    return np.maximum(scaled, 1).astype(np.int64)
