"""How long an answer takes, from a sentence to ids: one query at a time, on one thread.

Tables time a stage in a process of its own that holds only what answers, so this module imports no torch.
`lexlip bench latency` times the steps of one index in this process.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from anserini_bridge import read_header
from lexlip.bench.clocks import Seconds, percentiles, time_queries
from lexlip.data import Item, spread
from lexlip.errors import DataError
from lexlip.machine import resources
from lexlip.machine.resources import peak_memory_mb
from lexlip.search.hybrid import Fusion, fuse
from lexlip.search.stages.index_model import open_index

if TYPE_CHECKING:
    from torch import Tensor

    from lexlip.models.contract import QueryEncoder
    from lexlip.models.one_transformer import OneTransformer
    from lexlip.search.stages.impact import ImpactStage

PERCENTILES = (50, 95, 99, 99.99)
KILLED = "the system killed the process that was timed: memory may have run out"

Rerank = Callable[[str, Sequence[str], NDArray[np.floating]], list[str]]


@dataclass(frozen=True)
class TimedIndex:
    """An index to time."""

    folder: Path
    photos: int  # in it, including synthetic ones
    megabytes: float  # on disk, in 10^6 bytes
    query_topk: int | None = None  # words that a query keeps, if the index is one of words; None keeps all


@dataclass(frozen=True)
class RerankerTokens:
    """What a reranker is timed with: some photos stand for all, as scoring any photo takes equally long."""

    model: str  # the reranker's folder
    file: Path  # the photos, float16 [n, P, D] as numpy saves them, see `OneTransformer.embed_photos`


@dataclass(frozen=True)
class Response:
    """What n queries took."""

    seconds: Seconds = field(repr=False, compare=False)  # [n, 3]: encoding the query, searching, reranking
    peak_mb: float  # the most memory that the process held, in 10^6 bytes
    scored: int | None = (
        None  # photos, if a reranker scored some in place of all, and the rest is extrapolated
    )

    @property
    def mean(self) -> float:
        """Seconds per query."""
        return float(self.seconds.sum(axis=1).mean())

    def to_dict(self) -> dict[str, Any]:
        """Return seconds: the mean of each stage; of the whole mean, least, most and percentiles."""
        total = self.seconds.sum(axis=1)
        stages = zip(("encode", "search", "rerank"), self.seconds.mean(axis=0), strict=True)
        return {
            **{stage: float(value) for stage, value in stages},
            "mean": self.mean,
            "min": float(np.min(total)),
            "max": float(np.max(total)),
            **percentiles(total, PERCENTILES),
            "queries": len(total),
            "peak_mb": self.peak_mb,
            "scored": self.scored,
        }


def some_captions(items: Sequence[Item], number: int) -> list[str]:
    """Return so many captions of photos, evenly spread."""
    captions = [caption for item in items for caption in item.captions]
    return [captions[row] for row in spread(len(captions), number)]


@dataclass(frozen=True)
class Timing:
    """How answers are timed."""

    queries: Sequence[str]
    k: int = 10  # ids that a first stage answers with, if nothing reranks them
    warm_up: float | None = None  # seconds of searching before; None: see `lexlip.bench.clocks`
    fusion: Fusion = "none"  # see `lexlip.search.hybrid.fuse`
    weight: float = 0.5


def time_stage(
    index: TimedIndex, timing: Timing, tokens: RerankerTokens | None = None, ks: Sequence[int] = ()
) -> dict[int | None, Response]:
    """Return the response of a first stage alone, by None, and with the k best reranked, by k.

    Raises:
        DataError: the system killed the process, for example because memory ran out.
    """
    return resources.in_own_process(_time_stage, index, timing, tokens, ks, killed=DataError(KILLED))


def time_pairs(tokens: RerankerTokens, timing: Timing, photos: int, scored: int) -> Response:
    """Return the response of a cross-encoder that scores all photos for each query.

    So many of them are scored; the time is extrapolated to all photos in proportion.

    Raises:
        DataError: see `time_stage`.
    """
    given = tokens, timing, photos, min(photos, scored)
    return resources.in_own_process(_time_pairs, *given, killed=DataError(KILLED))


def _time_stage(
    index: TimedIndex, timing: Timing, tokens: RerankerTokens | None, ks: Sequence[int]
) -> dict[int | None, Response]:
    stage = open_index(index.folder, query_topk=index.query_topk)
    if "torch" in sys.modules:  # loaded by models whose text encoder needs it
        sys.modules["torch"].set_num_threads(1)

    def answer(query: str, k: int, rerank: Rerank | None) -> tuple[float, ...]:
        started = time.perf_counter()
        vector = stage.encode(query)
        encoded = time.perf_counter()
        (ids,), (scores,) = stage.search([vector], k)
        found = time.perf_counter()
        if rerank is None:
            return encoded - started, found - encoded, 0.0
        rerank(query, ids, scores)
        return encoded - started, found - encoded, time.perf_counter() - found

    responses: dict[int | None, Response] = {None: _time(partial(answer, k=timing.k, rerank=None), timing)}
    if tokens is not None:
        rerank = _open_reranker(tokens, timing)
        for k in ks:
            responses[k] = _time(partial(answer, k=k, rerank=rerank), timing)
    return responses


def _time_pairs(tokens: RerankerTokens, timing: Timing, photos: int, scored: int) -> Response:
    model, embedded = _load(tokens)
    pairs = np.stack([np.zeros(scored, np.int64), np.arange(scored) % len(embedded)], axis=1)

    def answer(query: str) -> tuple[float, ...]:
        started = time.perf_counter()
        np.argsort(-model.score_pairs(embedded, [query], pairs), kind="stable")
        return 0.0, 0.0, (time.perf_counter() - started) * photos / scored

    response = _time(answer, timing)
    return response if scored == photos else replace(response, scored=scored)


def _time(answer: Callable[[str], tuple[float, ...]], timing: Timing) -> Response:
    return Response(time_queries(answer, timing.queries, timing.warm_up), peak_memory_mb())


def _open_reranker(tokens: RerankerTokens, timing: Timing) -> Rerank:
    model, embedded = _load(tokens)

    def rerank(query: str, ids: Sequence[str], scores: NDArray[np.floating]) -> list[str]:
        rows = np.array([crc32(id.encode()) % len(embedded) for id in ids], np.int64)
        odds = model.score_pairs(embedded, [query], np.stack([np.zeros_like(rows), rows], axis=1))
        order = np.argsort(-fuse(scores, odds, timing.fusion, timing.weight), kind="stable")
        return [ids[row] for row in order]

    return rerank


def _load(tokens: RerankerTokens) -> tuple[OneTransformer, Tensor]:
    """Return the reranker, and the photos that it is timed with."""
    import torch

    from lexlip.models.load import load_reranker

    torch.set_num_threads(1)
    return load_reranker(tokens.model), torch.from_numpy(np.load(tokens.file))


# ---- `lexlip bench latency` ----

STAGES = ("encode", "quantize", "search", "total")
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

    Returns:
        {"conditions": …, "encoders": {name: {"terms": words of a query, stage: {"p50": ms, …}}}}
    """
    from lexlip.search.stages.impact import ImpactStage

    report: dict[str, Any] = {}
    for encoder in encoders:
        with closing(ImpactStage(index, model, encoder, query_topk)) as stage:
            documents = len(stage.searcher)
            timed = time_queries(partial(_answer_in_steps, stage, k), queries)
        terms = float(timed[:, -1].mean())
        report[encoder] = {
            "terms": terms,
            **{
                name: {**percentiles(column, (50, 95, 99), 1000), "max": float(1000 * column.max())}
                for name, column in zip(STAGES, timed[:, :-1].T, strict=True)
            },
        }
    conditions = {"documents": documents, "queries": len(queries), "k": k, "query_topk": query_topk}
    return {"conditions": {**conditions, **resources.describe()}, "encoders": report}


COLD = "import numpy, onnxruntime, tokenizers"
"""What a search cannot do without, as a program."""


def measure_cold(
    index: Path,
    queries: Sequence[str],
    starts: int,
    model: str | None = None,
    query_topk: int | None = None,
    k: int = 10,
) -> dict[str, Any]:
    """Measure searches from the start of a process to its end, in turns with COLD, as a process.

    Files are in the system's memory: one start of each does not count.

    Returns:
        {"conditions": …, "search": {"p50": seconds, "min": …, "max": …}, "import": …, "ratio": of medians}

    Raises:
        DataError: a search failed.
    """
    command = [sys.executable, "-m", "lexlip", "search", "--index", str(index), "-k", str(k)]
    command += ["--query-topk", "all" if query_topk is None else str(query_topk)]
    command += [] if model is None else ["--model", model]
    programs = {"search": command, "import": [sys.executable, "-c", COLD]}
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for number in range(starts + 1):
        for name, program in programs.items():
            asked = ["--", queries[number % len(queries)]] if name == "search" else []
            started = time.perf_counter()
            done = subprocess.run([*program, *asked], capture_output=True, text=True)
            if done.returncode:
                raise DataError(f"a search failed: {done.stderr.strip()}")
            seconds[name].append(time.perf_counter() - started)
    found = {name: np.array(values[1:]) for name, values in seconds.items()}
    documents = read_header(index).documents
    conditions = {"documents": documents, "starts": starts, "k": k, "query_topk": query_topk}
    return {
        "conditions": {**conditions, **resources.describe()},
        **{
            name: {**percentiles(values, (50,)), "min": float(values.min()), "max": float(values.max())}
            for name, values in found.items()
        },
        "ratio": float(np.median(found["search"]) / np.median(found["import"])),
    }


def _answer_in_steps(stage: ImpactStage, k: int, query: str) -> tuple[float, ...]:
    """Return the seconds of each of STAGES, and how many words the query had."""
    times = [time.perf_counter()]
    vector = stage.encode(query)
    times.append(time.perf_counter())
    impacts = stage.engine.quantized(vector)
    times.append(time.perf_counter())
    stage.searcher.search(impacts, k)
    times.append(time.perf_counter())
    return (*np.diff(times), times[-1] - times[0], float(len(impacts.data)))


def grow(index: Path, folder: Path, documents: int) -> None:
    """Write a copy of an index with so many documents to a new folder.

    An added document mixes two of the index's own (see `lexlip.bench.distractors.recombined`), and
    has as many words as these if all have the same number.
    """
    from scipy.sparse import csr_matrix, vstack

    from anserini_bridge import ImpactSearcher, has_flat, read_metadata
    from lexlip.bench.distractors import recombined
    from lexlip.search.engines.lucene import impact_writer
    from lexlip.sparse.quantize import quantize, scale_of
    from lexlip.sparse.top_words import topk

    metadata = read_metadata(index)
    with ImpactSearcher(index) as searcher:
        ids = searcher.ids()
        parts = [searcher.vectors(ids[start : start + READ]) for start in range(0, len(ids), READ)]
        words = searcher.vocabulary
    vectors = csr_matrix(vstack(parts, format="csr"))
    scheme = metadata.quantization["scheme"]
    made_as = metadata.topk, metadata.encoder, metadata.extra
    with impact_writer(folder, words, scheme, *made_as, flat=has_flat(metadata)) as writer:
        writer.add(ids, vectors)
        made = 0
        for mixed in recombined(vectors, max(0, documents - len(ids))):
            names = [f"synthetic/{made + row}" for row in range(mixed.shape[0])]
            kept = topk(mixed, metadata.topk)
            writer.add(names, quantize(kept / scale_of(scheme), scheme))
            made += mixed.shape[0]
