"""Everything that a table of stages may show, measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tqdm import tqdm

from lexlip.data import Skipped, spread
from lexlip.errors import ConfigError
from lexlip.evaluation.evaluate import Report
from lexlip.evaluation.first_stages import (
    Measured,
    Settings,
    first_stage_folder,
    measure_first_stages,
    reranker_folder,
)
from lexlip.evaluation.pairs import (
    evaluate_pairs,
)
from lexlip.evaluation.runs import Training, training_of
from lexlip.evaluation.stages import response
from lexlip.evaluation.stages.indexes import write_index
from lexlip.evaluation.stages.questions import Questions
from lexlip.evaluation.stages.reranker import Reranker
from lexlip.evaluation.stages.response import Asked, Response, time_pairs, time_stage
from lexlip.models.folder import BM25
from lexlip.models.kinds import compares_pairs
from lexlip.search.fusion import Fusion

PAIR_QUERIES, PAIR_PHOTOS = 10, 512
"""Queries with which, and photos on which, a cross-encoder alone is timed; the rest is extrapolated."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is measured.

    Attributes:
        models: first stages by name.
        reranker: by name; a joint model reranks what it finds itself, with or without one.
        reranks: whether anything is.
        ks: candidates that are reranked, a row each.
        fusions: see `lexlip.search.fusion.fuse`, a row each.
        weight: of the first stage in a fusion.
        recall, response: what is measured.
        pairs: measure the reranker without a first stage too.
        sizes: photos in the index while response is measured, a row each; None: those of the pool.
        queries: captions that response is measured with.
        settings: of the first stages.
    """

    models: Sequence[str]
    reranker: str | None = None
    reranks: bool = True
    ks: Sequence[int] = (20,)
    fusions: Sequence[Fusion] = ("none",)
    weight: float = 0.5
    recall: bool = True
    response: bool = False
    pairs: bool = False
    sizes: Sequence[int | None] = (None,)
    queries: int = 200
    settings: Settings = field(default_factory=Settings)

    def reranker_of(self, model: str) -> str | None:
        """The name of what reranks the answers of a first stage."""
        if not self.reranks:
            return None
        return model if compares_pairs(first_stage_folder(model)) else self.reranker

    def check(self) -> None:
        """Finds out what cannot be measured before anything is.

        Raises:
            ModelError: a first stage does not exist, or cannot find, or the reranker cannot rerank.
            ConfigError: synthetic vectors are asked for of BM25.
        """
        for model in self.models:
            first_stage_folder(model)
        if self.reranker is not None:
            reranker_folder(self.reranker)
        if BM25 in self.models and tuple(self.sizes) != (None,):
            raise ConfigError("bm25 has no vectors to fill a pool up with: leave it out")


@dataclass(frozen=True)
class Row:
    """A first stage, alone or reranked, or a cross-encoder alone.

    Attributes:
        model: as the user named it.
        documents: what is kept of a photo; "pairs" of a cross-encoder alone.
        photos: among which photos are found.
        reranker: as the user named it.
        k, fusion: of what is reranked.
        report: recalls.
        response: seconds.
        speed_up: how many times as long the cross-encoder alone takes.
        photo_bytes: in the index; with a reranker also what that has to know of a photo.
        training: of the model and the reranker, and of the runs that these started from.
        method: what the run's method leaves out.
        skipped: photos that could not be read.
    """

    model: str
    documents: str
    photos: int
    reranker: str | None = None
    k: int | None = None
    fusion: Fusion | None = None
    report: Report | None = None
    response: Response | None = None
    speed_up: float | None = None
    photo_bytes: float | None = None
    training: Training | None = None
    method: str | None = None
    skipped: Sequence[Skipped] = ()

    def to_dict(self) -> dict[str, Any]:
        report = self.report
        return {
            "model": self.model,
            "method": self.method,
            "rerank": self.reranker,
            "k": self.k,
            "fusion": self.fusion,
            "documents": self.documents,
            "photos": self.photos,
            "t2i": report and report.t2i,
            "i2t": report and report.i2t,
            "mean_recall": report and report.mean_recall,
            "seconds": self.response and self.response.to_dict(),
            "speed_up": self.speed_up,
            "photo_bytes": self.photo_bytes,
            "training_minutes": self.training and self.training.minutes,
            "training_steps": self.training and self.training.steps,
        }


def measure_rows(plan: Plan, questions: Questions) -> list[Row]:
    """All rows of a table: each first stage alone and reranked, and the cross-encoder alone before them.

    Raises:
        ModelError, ConfigError: see `Plan.check`.
        DataError: nothing can be read, or nothing can ask.
        BridgeError: no Java (see anserini_bridge.errors).
    """
    plan.check()
    settings = replace(plan.settings, depth=max(10, *plan.ks))
    stages = list(measure_first_stages(plan.models, questions.pool, settings, questions.asking))
    names = {stage.name: plan.reranker_of(stage.name) for stage in stages}
    wanted = dict.fromkeys([*filter(None, names.values()), *([plan.reranker] if plan.pairs else [])])
    rerankers = {name: Reranker(name, questions.pool, settings) for name in wanted if name is not None}
    if plan.recall:
        for stage in stages:
            if (name := names[stage.name]) is not None:
                rerankers[name].want(stage.report)
        if plan.pairs and plan.reranker is not None:
            rerankers[plan.reranker].wanted.update(item.id for item in questions.pool.items)
    rows: list[Row] = []
    for size in plan.sizes:
        pairs = []
        if plan.pairs and plan.reranker is not None:
            pairs = [_pairs_row(rerankers[plan.reranker], plan, questions, size)]
        rows += pairs
        for stage in _bar(stages, settings.progress and plan.response):
            reranker = None if (name := names[stage.name]) is None else rerankers[name]
            rows += _with_speed_up(_rows(stage, reranker, plan, questions, size), pairs)
    return [replace(row, training=_training(row)) for row in rows]


def _rows(
    stage: Measured, reranker: Reranker | None, plan: Plan, questions: Questions, size: int | None
) -> list[Row]:
    """A first stage alone, and reranked."""
    photos = size or stage.report.images
    report = stage.report if plan.recall else None
    skipped = () if stage.model is None else stage.report.skipped
    alone = Row(stage.name, stage.documents, photos, report=report, skipped=skipped)
    combined = []
    if reranker is not None:
        reports = reranker.reports(stage.report, plan.ks, plan.fusions, plan.weight) if plan.recall else {}
        combined = [
            replace(alone, reranker=reranker.name, k=k, fusion=fusion, report=reports.get((k, fusion)))
            for k in plan.ks
            for fusion in plan.fusions
        ]
    rows = [alone, *combined]
    return _timed(rows, stage, reranker, plan, questions, size) if plan.response else rows


def _timed(
    rows: Sequence[Row],
    stage: Measured,
    reranker: Reranker | None,
    plan: Plan,
    questions: Questions,
    size: int | None,
) -> list[Row]:
    """The same with seconds and bytes."""
    with TemporaryDirectory(prefix="lexlip-") as place:
        folder = Path(place) / "index"
        folder.mkdir()
        index = write_index(folder, stage, questions.pool, plan.settings, size)
        tokens = None if reranker is None else reranker.tokens(Path(place))
        responses = time_stage(index, _asked(plan, questions), tokens, plan.ks)
    stored = 1e6 * index.megabytes / index.photos
    known = 0 if reranker is None else reranker.photo_bytes
    return [
        replace(row, response=responses[row.k], photo_bytes=stored + (0 if row.k is None else known))
        for row in rows
    ]


def _pairs_row(reranker: Reranker, plan: Plan, questions: Questions, size: int | None) -> Row:
    """The cross-encoder alone, which scores all pairs."""
    row = Row(reranker.name, "pairs", size or len(questions.pool))
    if plan.recall:
        report = evaluate_pairs(reranker.model, reranker.embedded, reranker.settings.progress)
        row = replace(row, report=report)
    if plan.response:
        with TemporaryDirectory(prefix="lexlip-") as folder:
            tokens, asked = reranker.tokens(Path(folder)), _asked(plan, questions, PAIR_QUERIES)
            timed = time_pairs(tokens, asked, row.photos, PAIR_PHOTOS)
        row = replace(row, response=timed, photo_bytes=float(reranker.photo_bytes), speed_up=1.0)
    return row


def _asked(plan: Plan, questions: Questions, most: int | None = None) -> Asked:
    """Captions of the photos that ask, evenly spread."""
    items = questions.pool.items[: questions.asking]
    captions = [caption for item in items for caption in item.captions]
    number = plan.queries if most is None else min(plan.queries, most)
    queries = [captions[row] for row in spread(len(captions), number)]
    return Asked(queries, warm_up=response.WARM_UP, fusion=plan.fusions[0], weight=plan.weight)


def _with_speed_up(rows: Sequence[Row], pairs: Sequence[Row]) -> list[Row]:
    """Rows beside the cross-encoder alone, if that was timed."""
    slow = pairs[0].response if pairs else None
    return [
        row if slow is None or row.response is None else replace(row, speed_up=slow.mean / row.response.mean)
        for row in rows
    ]


def _training(row: Row) -> Training | None:
    return training_of([row.model, *([] if row.reranker is None else [row.reranker])])


def _bar(stages: Sequence[Measured], progress: bool) -> Iterator[Measured]:
    yield from tqdm(stages, unit="model", desc="response", disable=not progress or None, delay=2)
