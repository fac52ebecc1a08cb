"""Latency of a search from a sentence to ids: one query at a time, on one thread, by stage."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from anserini_bridge import ImpactSearcher, ImpactWriter, read_metadata
from lexlip.benchmark.machine import machine
from lexlip.evaluation.distractors import recombined
from lexlip.search.words import WordStage
from lexlip.sparse.quantize import quantize
from lexlip.sparse.topk import topk

if TYPE_CHECKING:
    from lexlip.models.encoder import QueryEncoder

STAGES = ("encode", "quantize", "search", "total")
PERCENTILES = (50, 95, 99)
WARM_UP = 10.0  # seconds of searching that do not count: Java compiles, and words are unpacked
READ = 10_000  # documents read from an index at a time


def measure_latency(
    index: Path,
    queries: Sequence[str],
    encoders: Sequence[QueryEncoder],
    model: str | None = None,
    query_topk: int | None = None,
    k: int = 10,
) -> dict[str, Any]:
    """Milliseconds of each stage with each query encoder.

    encode: tokens and the vector; quantize: the heaviest words as whole numbers; search: ids and scores of
    the k best documents. What `lexlip search` shows besides, which words matched, is not in it.

    Args:
        index: the index's folder.
        queries: sentences.
        encoders: to measure.
        model: as for `PhotoSearch`.
        query_topk: words that a query keeps; None keeps all.
        k: hits of a query.

    Returns:
        {"conditions": …, "encoders": {name: {"terms": words of a query, stage: {"p50": ms, …}}}}
    """
    report: dict[str, Any] = {}
    for encoder in encoders:
        with closing(WordStage(index, model, encoder, query_topk)) as stage:
            documents = len(stage.searcher)
            until = time.perf_counter() + WARM_UP
            while time.perf_counter() < until:
                for query in queries:
                    _stages(stage, query, k)
                    if time.perf_counter() >= until:
                        break
            timed = [_stages(stage, query, k) for query in queries]
        ms = 1000 * np.array([stages for stages, _ in timed])  # [queries, STAGES]
        terms = float(np.mean([terms for _, terms in timed]))
        report[encoder] = {"terms": terms, **_percentiles(ms)}
    conditions = {"documents": documents, "queries": len(queries), "k": k, "query_topk": query_topk}
    return {"conditions": {**conditions, **machine()}, "encoders": report}


def _stages(stage: WordStage, query: str, k: int) -> tuple[tuple[float, ...], int]:
    """Seconds of each of STAGES, and how many words the query had."""
    times = [time.perf_counter()]
    vector = stage.encode(query)
    times.append(time.perf_counter())
    impacts = stage.engine.quantized(vector)
    times.append(time.perf_counter())
    stage.searcher.search(impacts, k)
    times.append(time.perf_counter())
    return (*np.diff(times), times[-1] - times[0]), impacts.nnz


def _percentiles(ms: NDArray[np.float64]) -> dict[str, dict[str, float]]:
    return {
        stage: {
            **{f"p{percent}": float(np.percentile(column, percent)) for percent in PERCENTILES},
            "max": float(column.max()),
        }
        for stage, column in zip(STAGES, ms.T, strict=True)
    }


def grow(index: Path, folder: Path, documents: int) -> None:
    """Writes a copy of an index with so many documents.

    Those that are added mix two of its own each (see `lexlip.evaluation.distractors.recombined`), and are
    as long as these if all have the same length. The copy goes to a new folder.
    """
    metadata = read_metadata(index)
    with ImpactSearcher(index) as searcher:
        ids = searcher.ids()
        parts = [searcher.vectors(ids[start : start + READ]) for start in range(0, len(ids), READ)]
        words = searcher.vocabulary
    vectors = csr_matrix(vstack(parts, format="csr"))
    with ImpactWriter(
        folder,
        words,
        encoder=metadata.encoder,
        quantization=metadata.quantization,
        topk=metadata.topk,
        normalize=metadata.normalize,
        extra=metadata.extra,
    ) as writer:
        writer.add(ids, vectors)
        made = 0
        for mixed in recombined(vectors, max(0, documents - len(ids))):
            names = [f"synthetic/{made + row}" for row in range(mixed.shape[0])]
            kept = topk(mixed, metadata.topk)
            writer.add(names, quantize(kept) if metadata.normalize else kept)
            made += mixed.shape[0]
