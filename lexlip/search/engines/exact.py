"""Brute force over float vectors; and which engine searches those of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from lexlip.errors import ModelError
from lexlip.registry import Metric
from lexlip.retrieval.first_stage import EngineName, EngineOf, Results
from lexlip.search.engines.lucene import temporary_lucene_engine
from lexlip.sparse.quantize import Scheme
from lexlip.sparse.rows import unit_length

if TYPE_CHECKING:
    from lexlip.models.contract import Encoder

FULL = 0.25  # share of non-zero entries from which on a dense product is faster than a sparse one


class ExactEngine:
    """Brute force over float vectors [n, V], which indexes are measured against.

    Weights and scores may be negative, as those of dense models are. A document that shares no word with the
    query has score 0 and is not found.

    Args:
        rows: queries scored at a time; their scores, [rows, n], are held.
        keep_lengths: cosines are times the lengths of documents, which were balanced.
    """

    def __init__(
        self,
        ids: Sequence[str],
        vectors: csr_matrix,
        rows: int = 256,
        metric: Metric = "dot",
        keep_lengths: bool = False,
    ) -> None:
        self.ids, self.metric = np.array(ids, dtype=object), metric
        as_given = metric == "dot" or keep_lengths
        columns = csr_matrix(vectors if as_given else unit_length(vectors)).T  # [V, n]
        self.is_full = columns.nnz > FULL * np.prod(columns.shape)
        self.columns = columns.toarray() if self.is_full else columns.tocsr()
        self.rows = rows

    def search(self, queries: csr_matrix, k: int) -> Results:
        if self.metric == "cosine":
            queries = unit_length(queries)
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
        """Return the scores, [rows, n]."""
        if self.is_full:
            full: np.ndarray = queries.toarray() @ self.columns
            return full
        return (queries @ self.columns).toarray()


@contextmanager
def exact_engine(
    ids: Sequence[str], vectors: csr_matrix, metric: Metric = "cosine", keep_lengths: bool = False
) -> Iterator[ExactEngine]:
    """Give an ExactEngine for a `with` block, as every `EngineOf` does."""
    yield ExactEngine(ids, vectors, metric=metric, keep_lengths=keep_lengths)


def engine_for(
    model: Encoder, name: EngineName | None = None, scheme: Scheme = "unit"
) -> tuple[EngineName, EngineOf]:
    """Return the name of the engine for a model's vectors, and what makes one.

    The name None is Lucene for words, and Faiss's exact search for dense vectors. For the scheme see
    `lexlip.sparse.quantize`; documents of "balanced" come balanced.

    Raises:
        ModelError: the engine cannot search such vectors.
    """
    fitting = engines_of(model)
    name = name or fitting[0]
    if name not in fitting:
        what = "has no words" if model.vocabulary is None else "has words"
        raise ModelError(
            f"the {model.kind} model '{model.name}' {what}, so the {name} engine cannot search its vectors;"
            f" use one of {', '.join(fitting)}"
        )
    if name == "exact":
        return name, partial(exact_engine, metric=model.metric, keep_lengths=scheme == "balanced")
    if model.vocabulary is not None:
        words = model.vocabulary.words
        return name, partial(temporary_lucene_engine, words=words, scheme=scheme, threads=2)
    from lexlip.search.engines.faiss_index import faiss_engine  # Faiss is of the extra dense

    return name, partial(faiss_engine, metric=model.metric, ann="hnsw" if name == "hnsw" else "flat")


def engines_of(model: Encoder) -> tuple[EngineName, ...]:
    """Return the engines that can search a model's vectors, the default first."""
    return ("flat", "hnsw", "exact") if model.vocabulary is None else ("lucene", "exact")
