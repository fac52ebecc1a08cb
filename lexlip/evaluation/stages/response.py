"""How long an answer takes, from a sentence to ids: one query at a time, on one thread, in a process of its
own that holds nothing but what answers; so this imports no torch where none is needed."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from anserini_bridge import ImpactSearcher
from anserini_bridge.bm25 import Bm25Searcher
from lexlip.benchmark.own_process import in_own_process
from lexlip.errors import DataError
from lexlip.search.engines import LuceneEngine, Results
from lexlip.search.fusion import Fusion, fuse

if TYPE_CHECKING:
    from torch import Tensor

    from lexlip.models.encoder import Metric
    from lexlip.models.one_transformer import OneTransformer

WARM_UP = 5.0  # seconds of asking that do not count: Java compiles, and words are unpacked
PERCENTILES = (50, 95, 99, 99.99)

Seconds = NDArray[np.float64]
Rerank = Callable[[str, Sequence[str], NDArray[np.floating]], list[str]]


@dataclass(frozen=True)
class Index:
    """Photos on disk that a first stage searches.

    Attributes:
        kind: "words" in Lucene, "dense" in Faiss, or "captions" in BM25.
        folder: where it is.
        photos: in it, synthetic ones too.
        megabytes: on disk.
        model: where what encodes queries is; None of BM25.
        metric: what dense vectors are compared by.
        query_topk: words that a query keeps; None keeps all.
    """

    kind: Literal["words", "dense", "captions"]
    folder: Path
    photos: int
    megabytes: float
    model: str | None = None
    metric: Metric = "cosine"
    query_topk: int | None = None


@dataclass(frozen=True)
class Tokens:
    """What a reranker is timed with.

    Attributes:
        model: the reranker's folder.
        file: some photos, float16 [n, P, D] as numpy saves it, see `OneTransformer.embed_photos`. They stand
            for all others: scoring any photo takes as long.
    """

    model: str
    file: Path


@dataclass(frozen=True)
class Response:
    """What n queries took.

    Attributes:
        seconds: float64 [n, 3]: encoding the query, searching, reranking.
        peak_mb: the most memory that the process held, in 10^6 bytes.
        scored: where the reranker scored all photos: how many were measured, the rest is extrapolated.
    """

    seconds: Seconds = field(repr=False, compare=False)
    peak_mb: float
    scored: int | None = None

    @property
    def mean(self) -> float:
        """Seconds a query."""
        return float(self.seconds.sum(axis=1).mean())

    def to_dict(self) -> dict[str, Any]:
        """Seconds: of each part the mean; of the whole mean, least, most and percentiles."""
        total = self.seconds.sum(axis=1)
        parts = zip(("encode", "search", "rerank"), self.seconds.mean(axis=0), strict=True)
        return {
            **{part: float(value) for part, value in parts},
            "mean": self.mean,
            "min": float(np.min(total)),
            "max": float(np.max(total)),
            **{f"p{percent}": float(np.percentile(total, percent)) for percent in PERCENTILES},
            "queries": len(total),
            "peak_mb": self.peak_mb,
            "scored": self.scored,
        }


@dataclass(frozen=True)
class Asked:
    """How answers are timed.

    Attributes:
        queries: sentences.
        k: ids that a first stage answers with, where nothing reranks them.
        warm_up: seconds of asking before.
        fusion, weight: see `lexlip.search.fusion.fuse`.
    """

    queries: Sequence[str]
    k: int = 10
    warm_up: float = WARM_UP
    fusion: Fusion = "none"
    weight: float = 0.5


def time_stage(
    index: Index, asked: Asked, tokens: Tokens | None = None, ks: Sequence[int] = ()
) -> dict[int | None, Response]:
    """The response of a first stage alone, by None, and with the k best reranked, by k.

    Raises:
        DataError: the process was ended, as it is where memory runs out.
    """
    return _alone(_time_stage, index, asked, tokens, ks)


def time_pairs(tokens: Tokens, asked: Asked, photos: int, scored: int) -> Response:
    """The response of a cross-encoder that scores all photos for each query.

    Args:
        tokens: of some photos.
        asked: the queries.
        photos: how many there are; the time is extrapolated to them, in proportion.
        scored: how many are scored to measure it.

    Raises:
        DataError: as `time_stage`.
    """
    return _alone(_time_pairs, tokens, asked, photos, min(photos, scored))


def _alone(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return in_own_process(function, *arguments)
    except BrokenProcessPool as error:
        raise DataError(
            "the process that was to be timed was ended by the system: memory may have run out"
        ) from error


def _time_stage(
    index: Index, asked: Asked, tokens: Tokens | None, ks: Sequence[int]
) -> dict[int | None, Response]:
    encode, search = _open(index)

    def answer(query: str, k: int, rerank: Rerank | None) -> Seconds:
        started = time.perf_counter()
        vector = encode(query)
        encoded = time.perf_counter()
        (ids,), (scores,) = search(vector, k)
        found = time.perf_counter()
        if rerank is None:
            return np.array([encoded - started, found - encoded, 0])
        rerank(query, ids, scores)
        return np.array([encoded - started, found - encoded, time.perf_counter() - found])

    responses: dict[int | None, Response] = {None: _time(partial(answer, k=asked.k, rerank=None), asked)}
    if tokens is not None:
        rerank = _open_reranker(tokens, asked)
        for k in ks:
            responses[k] = _time(partial(answer, k=k, rerank=rerank), asked)
    return responses


def _time_pairs(tokens: Tokens, asked: Asked, photos: int, scored: int) -> Response:
    model, embedded = _load(tokens)
    pairs = np.stack([np.zeros(scored, np.int64), np.arange(scored) % len(embedded)], axis=1)

    def answer(query: str) -> Seconds:
        started = time.perf_counter()
        np.argsort(-model.score_pairs(embedded, [query], pairs), kind="stable")
        return np.array([0, 0, (time.perf_counter() - started) * photos / scored])

    response = _time(answer, asked)
    return response if scored == photos else replace(response, scored=scored)


def _time(answer: Callable[[str], Seconds], asked: Asked) -> Response:
    """Asks all queries, after some that do not count."""
    until = time.perf_counter() + asked.warm_up
    for query in cycle(asked.queries):
        answer(query)
        if time.perf_counter() >= until:
            break
    seconds = np.array([answer(query) for query in asked.queries])
    return Response(seconds, _peak_mb())


def _open(index: Index) -> tuple[Callable[[str], Any], Callable[[Any, int], Results]]:
    """What encodes a sentence, and what finds photos by it."""
    if index.kind == "captions":
        captions = Bm25Searcher(index.folder)
        return lambda query: [query], captions.search
    assert index.model is not None
    if index.kind == "dense":
        import torch

        from lexlip.models.kinds import load_model
        from lexlip.search.faiss_index import FaissIndex

        torch.set_num_threads(1)
        model = load_model(index.model)
        return lambda query: model.encode_text([query]), FaissIndex.load(index.folder, index.metric).search
    from lexlip.models.queries import TextQueries

    engine = LuceneEngine(ImpactSearcher(index.folder), index.query_topk)
    queries = TextQueries(index.model)
    if "torch" in sys.modules:  # a text encoder that is no BERT
        sys.modules["torch"].set_num_threads(1)
    return queries.encode, engine.search


def _open_reranker(tokens: Tokens, asked: Asked) -> Rerank:
    model, embedded = _load(tokens)

    def rerank(query: str, ids: Sequence[str], scores: NDArray[np.floating]) -> list[str]:
        rows = np.array([crc32(id.encode()) % len(embedded) for id in ids], np.int64)
        odds = model.score_pairs(embedded, [query], np.stack([np.zeros_like(rows), rows], axis=1))
        order = np.argsort(-fuse(scores, odds, asked.fusion, asked.weight), kind="stable")
        return [ids[row] for row in order]

    return rerank


def _load(tokens: Tokens) -> tuple[OneTransformer, Tensor]:
    """The reranker, and the photos that it is timed with."""
    import torch

    from lexlip.models.kinds import load_reranker

    torch.set_num_threads(1)
    return load_reranker(tokens.model), torch.from_numpy(np.load(tokens.file))


def _peak_mb() -> float:
    """The most memory that this process held, in 10^6 bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6
