"""First stages on the same photos: what each finds, with every model encoding them once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lexlip.bench.tables.folds import fold_sources, fold_vectors, mean_report
from lexlip.bench.tables.settings import TableSettings, TopK, topk_name
from lexlip.data import Source
from lexlip.machine.device import pick_device
from lexlip.measure.bm25_recall import evaluate_bm25
from lexlip.measure.evaluate import Report, measure
from lexlip.measure.pool import PoolVectors, encode_pool
from lexlip.models.contract import Encoder
from lexlip.models.load import check_first_stage, check_reranker, load_model
from lexlip.models.model_folder import is_hub_name, kind_of, model_folder
from lexlip.models.one_transformer import VLDeformer
from lexlip.registry import BM25, MODELS
from lexlip.search.open_engine import engine_for, engines_of


@dataclass(frozen=True)
class Measured:
    """A first stage and what it found.

    Attributes:
        name: as the user named it.
        documents: what it keeps of a photo: "top-32", "all", "dense" or "captions".
        topk: words that a document keeps.
        engine: what searched.
        reports: with rankings; several if the photos were divided into folds.
        vectors: all photos and captions; None for BM25.
        seconds: of encoding, and of indexing and searching both ways.
    """

    name: str
    documents: str
    topk: TopK
    engine: str
    reports: tuple[Report, ...]
    vectors: PoolVectors | None = None
    seconds: tuple[float, float] = (0.0, 0.0)

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
        source: photos with captions.
        settings: how they are measured.
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


def first_stage_folder(name: str, decompose: bool = False) -> str | Path:
    """Return the folder of a first stage's model; "bm25" and hub names as they are.

    Args:
        name: as the user named it.
        decompose: a cross-encoder may be used as a VLDeformer, which has the same weights.

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
