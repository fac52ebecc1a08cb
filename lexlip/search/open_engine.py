"""Chooses the engine that searches a model's vectors."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lexlip.errors import ModelError
from lexlip.retrieval.engine import EngineName, EngineOf
from lexlip.search.engines.exact import exact_engine
from lexlip.search.engines.lucene import temporary_lucene_engine
from lexlip.sparse.quantize import Scheme

if TYPE_CHECKING:
    from lexlip.models.contract import Encoder


def engine_for(
    model: Encoder,
    name: EngineName | None = None,
    scheme: Scheme = "unit",
) -> tuple[EngineName, EngineOf]:
    """Return the name of the engine for a model's vectors, and what makes one.

    Args:
        model: whose vectors they are.
        name: None is Lucene for words, and Faiss's exact search for dense vectors.
        scheme: see `lexlip.sparse.quantize`; documents of "balanced" come balanced.

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
