"""Rows of first stages and rerankers: recall, response, size and training, alone and reranked.

Or what a whole evaluation takes: encoding all photos and captions, and searching both ways.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np

from anserini_bridge.jvm import start_jvm
from lexlip.bench.response import Timing, some_captions, time_pairs, time_stage
from lexlip.bench.tables.first_stages import (
    Measured,
    TableSettings,
    first_stage_folder,
    mean_report,
    measure_first_stages,
    reranker_folder,
)
from lexlip.bench.tables.models import methods_of, trained_on
from lexlip.bench.tables.row import Evaluation, Row
from lexlip.bench.tables.table import Table
from lexlip.bench.tables.timed_stage import TableReranker, write_timed_index
from lexlip.data import Source, spread
from lexlip.data.source import Concat, Subset, no_captions
from lexlip.errors import ConfigError
from lexlip.machine.progress import ProgressBar
from lexlip.measure.pairs import evaluate_pairs, rerank
from lexlip.measure.recalls import Report
from lexlip.models.load import compares_pairs
from lexlip.registry import BM25
from lexlip.search.hybrid import Fusion
from lexlip.training.run_folder import Training, training_of

PAIR_QUERIES, PAIR_PHOTOS = 10, 512
"""Queries and photos with which a cross-encoder alone is timed; the rest is extrapolated."""

PAIRS = 2048  # of a caption and a photo, with which a cross-encoder alone is timed in an evaluation

Result = TypeVar("Result")


@dataclass(frozen=True)
class QueryPool:
    """Photos with captions; the first `queries` photos, and their captions, are queries."""

    source: Source
    queries: int

    @property
    def captions_per_photo(self) -> float:
        """How many captions a photo that is a query has, on average."""
        return sum(len(item.captions) for item in self.source.items[: self.queries]) / self.queries


def make_query_pool(
    source: Source,
    others: Sequence[Source] = (),
    queries: int | None = None,
    captions: int | None = None,
    queries_only: bool = False,
) -> QueryPool:
    """Return a pool of all photos, some of which are queries.

    Args:
        source, others: photos with captions, and further photos that are searched among.
        queries: so many of the photos with captions are queries, evenly spread; None: all photos.
        captions: the first so many captions of a photo count; None: all.
        queries_only: the pool has no other photos.

    Raises:
        DataError: no photo has a caption.
    """
    captioned = source.captioned()
    if not len(captioned):
        raise no_captions(source.name)
    everything = np.arange(len(source))
    first = everything if queries is None else captioned[list(spread(len(captioned), queries))]
    rest = everything[:0] if queries_only else np.setdiff1d(everything, first)
    pool: Source = Subset(source, [*first.tolist(), *rest.tolist()], captions)
    if others:
        further = [Subset(other, range(len(other)), captions) for other in others]
        pool = Concat([pool, *further])
    return QueryPool(pool, len(first))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is measured for a table."""

    table: Table
    models: Sequence[str]  # first stages by name
    reranker: str | None = None  # by name; a joint model reranks what it finds itself, with or without one
    ks: Sequence[int] = (20,)  # candidates that are reranked, one row each
    fusions: Sequence[Fusion] = ("none",)  # see `lexlip.search.hybrid.fuse`, one row each
    weight: float = 0.5  # of the first stage in a fusion
    sizes: Sequence[int | None] = (None,)  # photos in the index while response is measured; None: the pool's
    folds: Sequence[int] = (1,)  # parts into which the photos are divided, one row each
    timed: int = 200  # captions that response is measured with
    settings: TableSettings = field(default_factory=TableSettings)  # of the first stages

    @property
    def decompose(self) -> bool:
        """Whether a cross-encoder may be a first stage, see `first_stage_folder`."""
        return self.table.ablations == "vldeformer"

    def reranker_of(self, model: str) -> str | None:
        """Return the name of what reranks the answers of a first stage."""
        if self.table.reranks == "never":
            return None
        return model if compares_pairs(first_stage_folder(model)) else self.reranker

    def check(self) -> None:
        """Find out what cannot be measured before anything is.

        Raises:
            ModelError: a first stage does not exist or cannot find photos, or the reranker cannot rerank.
            ConfigError: nothing reranks where something must, or BM25 needs synthetic vectors.
            DataError: a table of ablations is asked for of a model that is not a run.
        """
        for model in self.models:
            first_stage_folder(model, self.decompose)
        if self.reranker is not None:
            reranker_folder(self.reranker)
        if self.table.reranks == "must" and not any(map(self.reranker_of, self.models)):
            raise ConfigError("this table is about reranking: name a ce or a joint model with --rerank")
        if BM25 in self.models and self.table.measure == "stages" and tuple(self.sizes) != (None,):
            raise ConfigError("bm25 has no vectors to enlarge a pool with: leave it out")
        methods_of(self.table, self.models)


def measure_stages(plan: Plan, pool: QueryPool) -> list[Row]:
    """Return all rows of a table: each first stage alone and reranked, and before them the cross-encoder.

    Raises:
        ModelError, ConfigError, DataError: see `Plan.check`.
        DataError: nothing can be read, or there are no queries.
        BridgeError: no Java (see anserini_bridge.errors).
    """
    plan.check()
    table = plan.table
    settings = replace(plan.settings, depth=max(10, *plan.ks, *table.cutoffs))
    if max(plan.folds) > 1 and pool.queries < len(pool.source):
        raise ConfigError("--folds divides photos that are all queries: leave out --pairs")
    stages = list(
        measure_first_stages(
            plan.models, pool.source, settings, pool.queries, plan.folds, decompose=plan.decompose
        )
    )
    names = {stage.name: plan.reranker_of(stage.name) for stage in stages}
    pairs = plan.reranker if table.pairs else None
    wanted = dict.fromkeys(name for name in (*names.values(), pairs) if name is not None)
    rerankers = {name: TableReranker(name, pool.source, settings) for name in wanted}
    if table.recall:
        for stage in stages:
            if (name := names[stage.name]) is not None:
                for report in stage.reports:
                    rerankers[name].want(report)
        if pairs is not None:
            rerankers[pairs].want_all()
    rows: list[Row] = []
    for size in plan.sizes:
        slow = None if pairs is None else _pairs_row(rerankers[pairs], plan, pool, size)
        rows += [] if slow is None else [slow]
        for stage in _bar(stages, settings.progress and table.response):
            reranker = None if (name := names[stage.name]) is None else rerankers[name]
            rows += [_with_speed_up(row, slow) for row in _rows(stage, reranker, plan, pool, size)]
    methods = methods_of(table, plan.models)
    return [replace(row, method=methods.get(row.model), training=_training(row)) for row in rows]


def measure_collections(plan: Plan, pools: Mapping[str, QueryPool]) -> list[Row]:
    """Return the rows of `measure_stages` on one collection after another, by the collections' names."""
    return [
        replace(row, collection=name, trained_on=trained_on(row.model))
        for name, pool in pools.items()
        for row in measure_stages(plan, pool)
    ]


def measure_languages(plan: Plan, pools: Mapping[str, QueryPool]) -> list[Row]:
    """Return the rows of `measure_stages`, each with what it measured with the captions of every language."""
    rows: dict[tuple[Any, ...], Row] = {}
    reports: dict[tuple[Any, ...], dict[str, Report]] = {}
    for language, pool in pools.items():
        settings = replace(plan.settings, language=language)
        for row in measure_stages(replace(plan, settings=settings), pool):
            key = (row.model, row.documents, row.reranker, row.k, row.fusion)
            rows.setdefault(key, row)
            if row.report is not None:
                reports.setdefault(key, {})[language] = row.report
    return [
        replace(
            row, report=None, t2i=None, i2t=None, trained_on=trained_on(row.model), languages=reports[key]
        )
        for key, row in rows.items()
    ]


def _rows(
    stage: Measured, reranker: TableReranker | None, plan: Plan, pool: QueryPool, size: int | None
) -> list[Row]:
    """Return a first stage alone, and reranked."""
    alone = Row(
        model=stage.name,
        documents=stage.documents,
        photos=size or stage.report.images,
        folds=len(stage.reports) if plan.table.folds else None,
        cutoffs=plan.table.cutoffs,
        queries=_queries(plan, pool, size or stage.report.images),
        report=stage.report if plan.table.recall else None,
        skipped=() if stage.vectors is None else stage.report.skipped,
    )
    rows = [alone]
    if reranker is not None:
        reports = {}
        if plan.table.recall:
            parts = [reranker.reports(report, plan.ks, plan.fusions, plan.weight) for report in stage.reports]
            reports = {key: mean_report([part[key] for part in parts]) for key in parts[0]}
        rows += [
            replace(alone, reranker=reranker.name, k=k, fusion=fusion, report=reports.get((k, fusion)))
            for k in plan.ks
            for fusion in plan.fusions
        ]
    return _timed(rows, stage, reranker, plan, pool, size) if plan.table.response else rows


def _timed(
    rows: Sequence[Row],
    stage: Measured,
    reranker: TableReranker | None,
    plan: Plan,
    pool: QueryPool,
    size: int | None,
) -> list[Row]:
    """Return the rows with seconds and bytes."""
    with TemporaryDirectory(prefix="lexlip-") as place:
        index = write_timed_index(Path(place) / "index", stage, pool.source, plan.settings, size)
        tokens = None if reranker is None else reranker.save_tokens(Path(place))
        responses = time_stage(index, _timing(plan, pool, plan.timed), tokens, plan.ks)
    stored = 1e6 * index.megabytes / index.photos
    of_tokens = 0 if reranker is None else reranker.photo_bytes
    return [
        replace(row, response=responses[row.k], photo_bytes=stored + (0 if row.k is None else of_tokens))
        for row in rows
    ]


def _pairs_row(reranker: TableReranker, plan: Plan, pool: QueryPool, size: int | None) -> Row:
    """Return the cross-encoder alone, which scores all pairs."""
    photos = size or len(pool.source)
    row = Row(model=reranker.name, documents="pairs", photos=photos, queries=_queries(plan, pool, photos))
    if plan.table.recall:
        report = evaluate_pairs(reranker.model, reranker.tokens, reranker.settings.progress)
        row = replace(row, report=report)
    if plan.table.response:
        with TemporaryDirectory(prefix="lexlip-") as folder:
            timing = _timing(plan, pool, min(plan.timed, PAIR_QUERIES))
            response = time_pairs(reranker.save_tokens(Path(folder)), timing, photos, PAIR_PHOTOS)
        row = replace(row, response=response, photo_bytes=float(reranker.photo_bytes), speed_up=1.0)
    return row


def _queries(plan: Plan, pool: QueryPool, photos: int) -> int | None:
    """Return how many captions so many photos have, if each has as many as those that are queries."""
    if not plan.table.total:
        return None
    return round(photos * pool.captions_per_photo)


def _timing(plan: Plan, pool: QueryPool, number: int) -> Timing:
    """Return so many captions of the photos that are queries, evenly spread."""
    queries = some_captions(pool.source.items[: pool.queries], number)
    return Timing(queries, fusion=plan.fusions[0], weight=plan.weight)


def _with_speed_up(row: Row, slow: Row | None) -> Row:
    """Compare a row with the cross-encoder alone, if that was timed."""
    if slow is None or slow.response is None or row.response is None:
        return row
    return replace(row, speed_up=slow.response.mean / row.response.mean)


def _training(row: Row) -> Training | None:
    return training_of([row.model, *([] if row.reranker is None else [row.reranker])])


def _bar(stages: Sequence[Measured], progress: bool) -> Iterator[Measured]:
    yield from ProgressBar(stages, unit="model", desc="response", disable=not progress, delay=2)


# ---- whole evaluations ----


def measure_evaluations(plan: Plan, source: Source) -> list[Row]:
    """Return what evaluations of so many photos take: of the cross-encoder, of first stages, of both.

    Photos are evenly spread. If there are too few, the time is extrapolated from all: encoding and reranking
    in proportion to the photos; searching and scoring all pairs to their square, as there are more queries
    and more to search.

    Pools are of `plan.sizes` photos; all captions of the source are queries.

    Raises:
        ModelError, ConfigError, DataError, BridgeError: see `measure_stages`.
    """
    plan.check()
    start_jvm()  # which takes a second
    measured: dict[int, list[Row]] = {}
    rows = []
    for size in plan.sizes:
        photos = min(size or len(source), len(source))
        if photos not in measured:
            measured[photos] = _evaluated(plan, Subset(source, spread(len(source), photos)))
        rows += [_of_size(row, photos, size or photos) for row in measured[photos]]
    return rows


def _evaluated(plan: Plan, source: Source) -> list[Row]:
    settings = replace(plan.settings, depth=max(10, *plan.ks))
    stages = list(measure_first_stages(plan.models, source, settings))
    names = {stage.name: plan.reranker_of(stage.name) for stage in stages}
    wanted = dict.fromkeys(name for name in (plan.reranker, *names.values()) if name is not None)
    rerankers = {name: _Reranker(TableReranker(name, source, plan.settings)) for name in wanted}
    rows = [] if plan.reranker is None else [rerankers[plan.reranker].alone(len(source))]
    for stage in stages:
        encode, search = stage.seconds
        alone = Row(
            model=stage.name,
            documents=stage.documents,
            photos=len(source),
            evaluation=Evaluation(encode=encode, search=search),
            skipped=stage.report.skipped,
        )
        rows.append(alone)
        if (name := names[stage.name]) is not None:
            rows += [rerankers[name].after(alone, stage, k) for k in plan.ks]
    return rows


class _Reranker:
    """A cross-encoder with all photos, and how long it took to encode them."""

    def __init__(self, reranker: TableReranker) -> None:
        self.name, self.model = reranker.name, reranker.model
        reranker.want_all()
        self.tokens, self.encode = _clocked(lambda: reranker.tokens)

    def alone(self, photos: int) -> Row:
        """Return the cross-encoder that scores every pair; some stand for all."""
        pool = self.tokens.pool
        number = len(pool.texts) * len(pool.image_ids)
        captions, images = np.divmod(np.array(spread(number, PAIRS), np.int64), len(pool.image_ids))
        rows, places = np.unique(captions, return_inverse=True)
        pairs, texts = np.stack([places, images], axis=1), [pool.texts[row] for row in rows]
        _, seconds = _clocked(lambda: self.model.score_pairs(self.tokens.photos, texts, pairs))
        evaluation = Evaluation(
            encode=self.encode,
            rerank=seconds * number / len(pairs),
            extrapolated=photos if len(pairs) < number else None,
        )
        return Row(model=self.name, documents="pairs", photos=photos, evaluation=evaluation)

    def after(self, alone: Row, stage: Measured, k: int) -> Row:
        """Return a first stage's row with the k best of each query reranked."""
        assert alone.evaluation is not None
        _, seconds = _clocked(lambda: rerank(self.model, self.tokens, stage.report, k))
        evaluation = replace(alone.evaluation, encode=alone.evaluation.encode + self.encode, rerank=seconds)
        return replace(alone, reranker=self.name, k=k, fusion="none", evaluation=evaluation)


def _of_size(row: Row, photos: int, size: int) -> Row:
    """Extrapolate from so many photos to so many more."""
    if size == photos or row.evaluation is None:
        return row
    times, squared = size / photos, (size / photos) ** 2
    before = row.evaluation
    evaluation = Evaluation(
        encode=before.encode * times,
        search=before.search * squared,
        rerank=before.rerank * (squared if row.documents == "pairs" else times),
        extrapolated=photos,
    )
    return replace(row, photos=size, evaluation=evaluation)


def _clocked(function: Callable[[], Result]) -> tuple[Result, float]:
    started = time.perf_counter()
    result = function()
    return result, time.perf_counter() - started
