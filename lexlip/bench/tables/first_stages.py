"""First stages on the same photos: what each finds, with every model encoding them once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lexlip.data import Source
from lexlip.data.source import Subset
from lexlip.errors import DataError
from lexlip.machine.device import pick_device
from lexlip.machine.progress import ProgressBar
from lexlip.measure.bm25_recall import evaluate_bm25
from lexlip.measure.evaluate import measure
from lexlip.measure.pool import PoolVectors, encode_pool
from lexlip.measure.recalls import Report
from lexlip.models.contract import Encoder
from lexlip.models.load import check_first_stage, check_reranker, load_model
from lexlip.models.model_folder import is_hub_name, kind_of, model_folder
from lexlip.models.one_transformer import VLDeformer
from lexlip.registry import BM25, MODELS
from lexlip.retrieval.first_stage import EngineName
from lexlip.search.engines.exact import engine_for, engines_of
from lexlip.sparse.balance import usual_scheme
from lexlip.sparse.quantize import Scheme

TopK = int | None  # words that a document keeps; None: all


@dataclass(frozen=True, kw_only=True)
class TableSettings:
    """How the rows of a table are measured."""

    topks: Sequence[TopK] = (None,)  # words that a document keeps, one row each; dense models have none
    engine: EngineName | None = None  # for the models that it can search; others, and None, their default
    scheme: Scheme | None = None  # see `lexlip.sparse.quantize`; None is the usual one of each model
    query_topk: int | None = None  # words that a query keeps; None keeps all
    depth: int = 10  # documents that a query finds
    language: str = "en"  # of the captions, for BM25; see `anserini_bridge.bm25.LANGUAGES`
    synthetic: int = 0  # vectors added to the photos, and as many to the captions
    threads: int = 1  # while speed is measured; recall uses all cores
    rounds: int = 5  # of the measurement of speed
    seed: int = 0  # of everything that is drawn
    workers: int = 2  # threads that decode photos
    device: str = "cpu"  # where models encode; see `lexlip.machine.device.pick_device`
    progress: bool = False  # show progress bars

    def scheme_of(self, model: Encoder) -> Scheme:
        """Return how a model's documents are quantised."""
        return self.scheme or usual_scheme(model.balance, model.metric)

    def bar(self, what: str, total: int, unit: str) -> ProgressBar:
        """Return a progress bar on stderr, if the work takes over two seconds."""
        return ProgressBar(total=total, unit=unit, desc=what, disable=not self.progress, delay=2)


def topk_name(kept: TopK) -> str:
    """Return "all", or "top-32"."""
    return "all" if kept is None else f"top-{kept}"


@dataclass(frozen=True)
class Measured:
    """A first stage and what it found."""

    name: str  # as the user named it
    documents: str  # what it keeps of a photo: "top-32", "all", "dense" or "captions"
    topk: TopK
    engine: str  # what searched
    reports: tuple[Report, ...]  # with rankings; several if the photos were divided into folds
    vectors: PoolVectors | None = None  # all photos and captions; None for BM25
    seconds: tuple[float, float] = (0.0, 0.0)  # of encoding, and of indexing and searching both ways

    @property
    def report(self) -> Report:
        """The mean of the reports, or the only one, with rankings."""
        return mean_report(self.reports)


def measure_first_stages(
    names: Sequence[str],
    source: Source,
    settings: TableSettings,
    queries: int | None = None,
    folds: Sequence[int] = (1,),
    decompose: bool = False,
    short: bool = False,
) -> Iterator[Measured]:
    """Measure first stages one after another, as `lexlip.measure.evaluate` does.

    Args:
        names: models by run, checkpoint, packaged or hub name, or "bm25".
        source, settings: photos with captions, and how the stages are measured.
        queries: the first so many photos, and their captions, are queries; None: all.
        folds: into how many parts the photos are divided, if all are queries.
        decompose: see `first_stage_folder`.
        short: also search with short queries, see `lexlip.measure.short_queries`.

    Raises:
        ModelError: one of them does not exist or cannot find photos; raised before the first is measured.
        DataError: there are no queries.
    """
    folders = [first_stage_folder(name, decompose) for name in names]
    for name, folder in zip(names, folders, strict=True):
        if folder == BM25:
            for number in folds:
                started = time.perf_counter()
                reports = _of_bm25(source, settings, queries, number, short)
                seconds = (0.0, time.perf_counter() - started)
                yield Measured(name, "captions", None, BM25, reports, seconds=seconds)
        else:
            undecomposed = decompose and not MODELS[kind_of(folder)].vectors
            model: Encoder
            if undecomposed:
                place = pick_device(settings.device)
                model = VLDeformer.from_pretrained(folder, or_relative=True).to(place)
            else:
                model = load_model(folder, settings.device)
            yield from _of_model(name, model, source, settings, queries, folds, short)


def _of_bm25(
    source: Source, settings: TableSettings, queries: int | None, folds: int, short: bool
) -> tuple[Report, ...]:
    measure_one = partial(
        evaluate_bm25,
        progress=settings.progress,
        depth=settings.depth,
        language=settings.language,
        short=short,
    )
    if folds == 1:
        return (measure_one(source, queries=queries),)
    return tuple(measure_one(part) for part in fold_sources(source, folds))


def _of_model(
    name: str,
    model: Encoder,
    source: Source,
    settings: TableSettings,
    queries: int | None,
    folds: Sequence[int],
    short: bool,
) -> Iterator[Measured]:
    wanted = settings.engine if settings.engine in engines_of(model) else None
    dense = model.vocabulary is None
    scheme = settings.scheme_of(model)
    engine, engine_of = engine_for(model, wanted, scheme)
    query_topk = None if dense else settings.query_topk
    bars = "" if settings.progress else None
    started = time.perf_counter()
    vectors = encode_pool(model, source, workers=settings.workers, progress=bars, queries=queries)
    encoded = time.perf_counter() - started
    for topk in (None,) if dense else settings.topks:
        documents = "dense" if dense else topk_name(topk)
        for number in folds:
            started = time.perf_counter()
            parts = [vectors] if number == 1 else fold_vectors(vectors, number)
            how = settings.progress, settings.depth, scheme, query_topk, short
            reports = [measure(part, engine_of, topk, *how) for part in parts]
            seconds = (encoded, time.perf_counter() - started)
            yield Measured(name, documents, topk, engine, tuple(reports), vectors, seconds)


# ---- folds: equal parts of the photos, each a pool of its own ----


def fold_vectors(vectors: PoolVectors, folds: int) -> Iterator[PoolVectors]:
    """Divide a pool whose photos are all queries: consecutive photos, with their captions.

    Raises:
        DataError: a fold has no captions.
    """
    for photos in _divide(len(vectors.pool.image_ids), folds):
        captions = np.flatnonzero(np.isin(vectors.pool.owners, photos))
        if not len(captions):
            raise DataError(f"one of {folds} folds has no captions: use fewer (--folds)")
        yield vectors.part(captions, photos)


def fold_sources(source: Source, folds: int) -> Iterator[Source]:
    """Divide photos that are not encoded."""
    for rows in _divide(len(source), folds):
        yield Subset(source, rows.tolist())


def _divide(photos: int, folds: int) -> list[NDArray[np.int64]]:
    if folds > photos:
        raise DataError(f"{photos} photos cannot be divided into {folds} folds")
    return np.array_split(np.arange(photos), folds)


def mean_report(reports: Sequence[Report]) -> Report:
    """Return the mean recalls of folds, and the number of photos and captions of the first; no rankings."""
    first, *others = reports
    if not others:
        return first

    def means(recalls: Sequence[dict[str, float]]) -> dict[str, float]:
        return {name: float(np.mean([each[name] for each in recalls])) for name in recalls[0]}

    t2i, i2t = means([report.t2i for report in reports]), means([report.i2t for report in reports])
    return replace(first, t2i=t2i, i2t=i2t, rankings={})


# ---- models by name ----


def first_stage_folder(name: str, decompose: bool = False) -> str | Path:
    """Return the folder of a first stage's model; "bm25" and hub names as they are.

    With `decompose` a cross-encoder may be used as a VLDeformer, which has the same weights.

    Raises:
        ModelError: there is none, or it has no vectors to search.
    """
    if not (decompose and kind_of(name) in MODELS[VLDeformer.kind].relatives):
        check_first_stage(name)
    return _folder(name)


def reranker_folder(name: str) -> str | Path:
    """Return the folder of the model that reranks.

    Raises:
        ModelError: there is none, or it does not compare pairs.
    """
    check_reranker(name)
    return _folder(name)


def _folder(name: str) -> str | Path:
    return name if name == BM25 or is_hub_name(name) else model_folder(name)
