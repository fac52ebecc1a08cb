"""Search engines with one interface: `search(queries, k) -> ids, scores`, best first."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from scipy.sparse import csr_matrix, diags_array

from lexlip.errors import ModelError
from lexlip.sparse.quantize import Scheme, quantize, scale_of
from lexlip.sparse.topk import topk

if TYPE_CHECKING:
    from anserini_bridge import ImpactSearcher
    from lexlip.models.encoder import Encoder, Metric

EngineName = Literal["lucene", "exact", "flat", "hnsw"]

Results = tuple[list[list[str]], list[np.ndarray]]
"""For each query the ids and the scores of its hits, best first; of sparse vectors only those that share a
term with it."""

FULL = 0.25  # share of entries that are not zero, from which on BLAS beats a sparse product


class Engine(Protocol):
    """What answers queries."""

    def search(self, queries: csr_matrix, k: int) -> Results:
        """The k best documents of each query row, [n, V]."""
        ...


EngineOf = Callable[[Sequence[str], csr_matrix], AbstractContextManager[Engine]]
"""Makes an engine that holds the documents with these ids and these (top-K) vectors."""


class ExactEngine:
    """Brute force over float vectors: what an index is measured against, and what dense vectors need.

    Weights may be negative, as a dense model's are, and so may scores; a document that shares no term with
    the query scores 0 and is not found.

    Args:
        ids: n ids.
        vectors: [n, V].
        query_topk: terms that a query keeps; None keeps all.
        rows: queries scored at a time; a block of [rows, n] scores is held.
        metric: what a score is, of a document and the terms that a query keeps.
    """

    def __init__(
        self,
        ids: Sequence[str],
        vectors: csr_matrix,
        query_topk: int | None = None,
        rows: int = 256,
        metric: Metric = "dot",
    ) -> None:
        self.ids, self.metric = np.array(ids, dtype=object), metric
        columns = csr_matrix(_of_length_one(vectors) if metric == "cosine" else vectors).T  # [V, n]
        self.is_full = columns.nnz > FULL * np.prod(columns.shape)
        self.columns = columns.toarray() if self.is_full else columns.tocsr()
        self.query_topk, self.rows = query_topk, rows

    def search(self, queries: csr_matrix, k: int) -> Results:
        if self.query_topk is not None:
            queries = topk(queries, self.query_topk)
        if self.metric == "cosine":
            queries = _of_length_one(queries)
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
    ids: Sequence[str], vectors: csr_matrix, query_topk: int | None = None, metric: Metric = "cosine"
) -> Iterator[ExactEngine]:
    """An ExactEngine for as long as a `with` lasts, as every `EngineOf` gives one."""
    yield ExactEngine(ids, vectors, query_topk, metric=metric)


def _of_length_one(vectors: csr_matrix) -> csr_matrix:
    norms = np.sqrt(vectors.multiply(vectors).sum(axis=1)).A1
    return csr_matrix(diags_array(1 / np.maximum(norms, 1e-12)) @ vectors)


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


def engine_for(
    model: Encoder,
    name: EngineName | None = None,
    scheme: Scheme = "unit",
    query_topk: int | None = None,
) -> tuple[EngineName, EngineOf]:
    """The engine that a model's vectors are searched with.

    Args:
        model: whose vectors they are.
        name: of the engine; None is Lucene for words, and Faiss's exact search for dense vectors.
        scheme: see `lexlip.sparse.quantize`.
        query_topk: words that a query keeps; None keeps all.

    Raises:
        ModelError: the engine does not search such vectors, or a dense model has no words to keep.
    """
    fitting = engines_of(model)
    name = name or fitting[0]
    if name not in fitting:
        what = "has no words" if model.vocabulary is None else "has words"
        raise ModelError(
            f"the {model.kind} model '{model.name}' {what}, so the {name} engine cannot search its vectors;"
            f" there are {', '.join(fitting)}"
        )
    if model.vocabulary is None and query_topk is not None:
        raise ModelError(f"the {model.kind} model '{model.name}' has no words; leave out --query-topk")
    if name == "exact":
        return name, partial(exact_engine, query_topk=query_topk, metric=model.metric)
    if model.vocabulary is not None:
        words = model.vocabulary.words
        return name, partial(
            temporary_lucene_engine, words=words, scheme=scheme, query_topk=query_topk, threads=2
        )
    from lexlip.search.faiss_index import faiss_engine

    return name, partial(faiss_engine, metric=model.metric, ann="hnsw" if name == "hnsw" else "flat")


def engines_of(model: Encoder) -> tuple[EngineName, ...]:
    """The engines that search a model's vectors, the usual one first."""
    return ("flat", "hnsw", "exact") if model.vocabulary is None else ("lucene", "exact")


def describe(scheme: Scheme) -> dict[str, str | int]:
    """A quantisation as it is stored beside an index."""
    return {"scheme": scheme, "scale": scale_of(scheme)}
