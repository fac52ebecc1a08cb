"""Search engines with one interface: `search(queries, k) -> ids, scores`, best first."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy.sparse import csr_matrix, diags_array

from lexlip.errors import ModelError
from lexlip.sparse.quantize import Scheme, quantize, scale_of
from lexlip.sparse.topk import topk

if TYPE_CHECKING:
    from anserini_bridge import ImpactSearcher
    from lexlip.models.dual_encoder import DualEncoder

Results = tuple[list[list[str]], list[np.ndarray]]
"""For each query the ids and the scores of its hits, best first; only documents that share a term."""

FULL = 0.25  # share of entries that are not zero, from which on BLAS beats a sparse product


class Engine(Protocol):
    """What answers queries."""

    def search(self, queries: csr_matrix, k: int) -> Results:
        """The k best documents of each query row, [n, V]."""
        ...


class ExactEngine:
    """Brute force over float vectors: what an index is measured against, and what dense vectors need.

    Weights may be negative, as a dense model's are, and so may scores; a document that shares no term with
    the query scores 0 and is not found.

    Args:
        ids: n ids.
        vectors: [n, V]; the score is the dot product, so normalise them first for a cosine.
        query_topk: terms that a query keeps; None keeps all.
        rows: queries scored at a time; a block of [rows, n] scores is held.
    """

    def __init__(
        self, ids: Sequence[str], vectors: csr_matrix, query_topk: int | None = None, rows: int = 256
    ) -> None:
        self.ids = np.array(ids, dtype=object)
        columns = csr_matrix(vectors).T  # [V, n]
        self.is_full = columns.nnz > FULL * np.prod(columns.shape)
        self.columns = columns.toarray() if self.is_full else columns.tocsr()
        self.query_topk, self.rows = query_topk, rows

    def search(self, queries: csr_matrix, k: int) -> Results:
        if self.query_topk is not None:
            queries = topk(queries, self.query_topk)
        ids: list[list[str]] = []
        scores: list[np.ndarray] = []
        for start in range(0, queries.shape[0], self.rows):
            block = self._scores(queries[start : start + self.rows])
            block[block == 0] = -np.inf  # behind the negative ones
            order = np.argsort(-block, axis=1, kind="stable")[:, :k]
            for row, best in zip(block, order, strict=True):
                best = best[row[best] > -np.inf]
                ids.append(list(self.ids[best]))
                scores.append(row[best])
        return ids, scores

    def _scores(self, queries: csr_matrix) -> np.ndarray:
        """[rows, n]"""
        if self.is_full:
            full: np.ndarray = queries.toarray() @ self.columns
            return full
        return (queries @ self.columns).toarray()


@contextmanager
def exact_engine(
    ids: Sequence[str], vectors: csr_matrix, query_topk: int | None = None
) -> Iterator[ExactEngine]:
    """An ExactEngine whose scores order documents by their cosine with the query."""
    norms = np.sqrt(vectors.multiply(vectors).sum(axis=1)).A1
    yield ExactEngine(ids, diags_array(1 / np.maximum(norms, 1e-12)) @ vectors, query_topk)


class LuceneEngine:
    """An impact index: float queries are quantised as its documents were.

    Args:
        searcher: the open index.
        query_topk: terms that a query keeps; None keeps all.
        threads: queries searched at the same time.
    """

    def __init__(self, searcher: ImpactSearcher, query_topk: int | None = None, threads: int = 1) -> None:
        self.searcher, self.query_topk, self.threads = searcher, query_topk, threads
        self.scheme: Scheme = searcher.metadata.quantization["scheme"]
        self.unit = scale_of(self.scheme) ** 2
        """What a score of 1 is in the index's whole numbers: query scale times document scale."""

    def quantized(self, queries: csr_matrix) -> csr_matrix:
        """Whole weights, as the index takes them, of float queries [n, V]."""
        return quantize(topk(queries, self.query_topk), self.scheme)

    def search(self, queries: csr_matrix, k: int) -> Results:
        ids, scores = self.searcher.search(self.quantized(queries), k, self.threads)
        return ids, [row / self.unit for row in scores]


@contextmanager
def temporary_lucene_engine(
    ids: Sequence[str],
    vectors: csr_matrix,
    words: Sequence[str],
    scheme: Scheme = "unit",
    query_topk: int | None = None,
    threads: int = 1,
) -> Iterator[LuceneEngine]:
    """A LuceneEngine over an index that lasts as long as the `with` block.

    Args:
        ids: n ids.
        vectors: float vectors [n, V], already cut to their top-K.
        words: the V words.
        scheme: see `lexlip.sparse.quantize`.
        query_topk: terms that a query keeps.
        threads: queries searched at the same time.
    """
    from anserini_bridge import ImpactSearcher, ImpactWriter

    with tempfile.TemporaryDirectory(prefix="lexlip-") as folder:
        with ImpactWriter(
            folder,
            words,
            encoder="temporary",
            quantization=describe(scheme),
            topk=None,
            normalize=scheme == "unit",
        ) as writer:
            writer.add(ids, quantize(vectors, scheme))
        with ImpactSearcher(folder) as searcher:
            yield LuceneEngine(searcher, query_topk, threads)


def words_of(model: DualEncoder) -> tuple[str, ...]:
    """The words that an index of a model's vectors stores.

    Raises:
        ModelError: a dense model has none.
    """
    if model.vocabulary is None:
        raise ModelError(
            f"the {model.kind} model '{model.name}' has no words, which are what a Lucene index holds;"
            " measure it with the exact engine"
        )
    return model.vocabulary.words


def describe(scheme: Scheme) -> dict[str, str | int]:
    """A quantisation as it is stored beside an index."""
    return {"scheme": scheme, "scale": scale_of(scheme)}
