"""`lexlip bench latency`: the time from a sentence to ids, one query at a time, on one thread, by stage."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_matrix, vstack

from anserini_bridge import ImpactSearcher, read_metadata
from lexlip.bench.distractors import recombined
from lexlip.bench.latency import percentiles, time_queries
from lexlip.machine import resources
from lexlip.search.engines.lucene import impact_writer
from lexlip.search.stages.impact import ImpactStage
from lexlip.sparse.quantize import quantize, scale_of
from lexlip.sparse.topk import topk

if TYPE_CHECKING:
    from lexlip.models.contract import QueryEncoder

STAGES = ("encode", "quantize", "search", "total")
PERCENTILES = (50, 95, 99)
READ = 10_000  # documents read from an index at a time


def measure_latency(
    index: Path,
    queries: Sequence[str],
    encoders: Sequence[QueryEncoder],
    model: str | None = None,
    query_topk: int | None = None,
    k: int = 10,
) -> dict[str, Any]:
    """Measure the milliseconds of each stage with each query encoder.

    encode: tokens and the vector; quantize: the heaviest words as whole numbers; search: ids and scores of
    the k best documents. What `lexlip search` adds, which words matched, is not included.

    Args:
        index: the index's folder.
        queries: sentences.
        encoders: the query encoders to measure.
        model, query_topk: see `lexlip.search.open_index.open_index`.
        k: hits of a query.

    Returns:
        {"conditions": …, "encoders": {name: {"terms": words of a query, stage: {"p50": ms, …}}}}
    """
    report: dict[str, Any] = {}
    for encoder in encoders:
        with closing(ImpactStage(index, model, encoder, query_topk)) as stage:
            documents = len(stage.searcher)
            timed = time_queries(partial(_answer, stage, k), queries)
        terms = float(timed[:, -1].mean())
        report[encoder] = {
            "terms": terms,
            **{
                name: {
                    **percentiles(column, PERCENTILES, 1000),
                    "max": float(1000 * column.max()),
                }
                for name, column in zip(STAGES, timed[:, :-1].T, strict=True)
            },
        }
    conditions = {"documents": documents, "queries": len(queries), "k": k, "query_topk": query_topk}
    return {"conditions": {**conditions, **resources.describe()}, "encoders": report}


def _answer(stage: ImpactStage, k: int, query: str) -> tuple[float, ...]:
    """Return the seconds of each of STAGES, and how many words the query had."""
    times = [time.perf_counter()]
    vector = stage.encode(query)
    times.append(time.perf_counter())
    impacts = stage.engine.quantized(vector)
    times.append(time.perf_counter())
    stage.searcher.search(impacts, k)
    times.append(time.perf_counter())
    return (*np.diff(times), times[-1] - times[0], float(impacts.nnz))


def grow(index: Path, folder: Path, documents: int) -> None:
    """Write a copy of an index with so many documents to a new folder.

    An added document mixes two of the index's own (see `lexlip.bench.distractors.recombined`), and
    has as many words as these if all have the same number.
    """
    metadata = read_metadata(index)
    with ImpactSearcher(index) as searcher:
        ids = searcher.ids()
        parts = [searcher.vectors(ids[start : start + READ]) for start in range(0, len(ids), READ)]
        words = searcher.vocabulary
    vectors = csr_matrix(vstack(parts, format="csr"))
    scheme = metadata.quantization["scheme"]
    with impact_writer(folder, words, scheme, metadata.topk, metadata.encoder, metadata.extra) as writer:
        writer.add(ids, vectors)
        made = 0
        for mixed in recombined(vectors, max(0, documents - len(ids))):
            names = [f"synthetic/{made + row}" for row in range(mixed.shape[0])]
            kept = topk(mixed, metadata.topk)
            writer.add(names, quantize(kept / scale_of(scheme), scheme))
            made += mixed.shape[0]
