"""What a whole evaluation takes: encoding all photos and captions, and searching both ways."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from anserini_bridge.jvm import start_jvm
from lexlip.bench.tables.first_stages import Measured, measure_first_stages
from lexlip.bench.tables.row import Evaluation, Row
from lexlip.bench.tables.stages import Plan
from lexlip.bench.tables.timed_stage import TableReranker
from lexlip.data import Source, spread
from lexlip.data.source import Subset
from lexlip.measure.pairs import rerank

PAIRS = 2048  # of a caption and a photo, with which a cross-encoder alone is timed

Result = TypeVar("Result")


def measure_evaluations(plan: Plan, source: Source) -> list[Row]:
    """Return what evaluations of so many photos take: of the cross-encoder, of first stages, of both.

    Photos are evenly spread. If there are too few, the time is extrapolated from all: encoding and reranking
    in proportion to the photos; searching and scoring all pairs to their square, as there are more queries
    and more to search.

    Pools are of `plan.sizes` photos; all captions of the source are queries.

    Raises:
        ModelError, ConfigError, DataError, BridgeError: see `lexlip.bench.tables.stages.measure_stages`.
    """
    plan.check()
    start_jvm()  # which takes a second
    measured: dict[int, list[Row]] = {}
    rows = []
    for size in plan.sizes:
        photos = min(size or len(source), len(source))
        if photos not in measured:
            measured[photos] = _measure(plan, Subset(source, spread(len(source), photos)))
        rows += [_of_size(row, photos, size or photos) for row in measured[photos]]
    return rows


def _measure(plan: Plan, source: Source) -> list[Row]:
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
        self.tokens, self.encode = _timed(lambda: reranker.tokens)

    def alone(self, photos: int) -> Row:
        """Return the cross-encoder that scores every pair; some stand for all."""
        pool = self.tokens.pool
        number = len(pool.texts) * len(pool.image_ids)
        captions, images = np.divmod(np.array(spread(number, PAIRS), np.int64), len(pool.image_ids))
        rows, places = np.unique(captions, return_inverse=True)
        pairs, texts = np.stack([places, images], axis=1), [pool.texts[row] for row in rows]
        _, seconds = _timed(lambda: self.model.score_pairs(self.tokens.photos, texts, pairs))
        evaluation = Evaluation(
            encode=self.encode,
            rerank=seconds * number / len(pairs),
            extrapolated=photos if len(pairs) < number else None,
        )
        return Row(model=self.name, documents="pairs", photos=photos, evaluation=evaluation)

    def after(self, alone: Row, stage: Measured, k: int) -> Row:
        """Return a first stage's row with the k best of each query reranked."""
        assert alone.evaluation is not None
        _, seconds = _timed(lambda: rerank(self.model, self.tokens, stage.report, k))
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


def _timed(function: Callable[[], Result]) -> tuple[Result, float]:
    started = time.perf_counter()
    result = function()
    return result, time.perf_counter() - started
