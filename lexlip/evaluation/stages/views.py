"""The tables of the stages: which columns each shows, and what is to be known about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lexlip.benchmark.machine import machine
from lexlip.evaluation.ablations import left_out
from lexlip.evaluation.runs import lineage, run_of
from lexlip.evaluation.stages import response
from lexlip.evaluation.stages.questions import Questions
from lexlip.evaluation.stages.reranker import TOKENS
from lexlip.evaluation.stages.rows import Plan, Row, measure_rows
from lexlip.evaluation.tables import NONE, RECALLS
from lexlip.models.folder import BM25

ABOUT = "≈"  # before what is extrapolated


@dataclass(frozen=True)
class Column:
    """A column: its heading, and what a row shows there."""

    heading: str
    cell: Callable[[Row], str]


@dataclass(frozen=True, kw_only=True)
class View:
    """A table.

    Attributes:
        source: where the figures to compare with are to be read; None: there are none.
        columns: after those that say what a row is.
        published: those of the figures that the authors also give with their code or in the abstract.
        ablations: rows say what a run leaves out.
    """

    source: str | None
    columns: tuple[Column, ...]
    published: str | None = None
    ablations: bool = False


def recall_columns(mean: str) -> tuple[Column, ...]:
    """Six recalls in percent, and their mean under this name."""
    columns = [
        Column(f"{'T2I ' if way == 't2i' else 'I2T '}{k}" if k == "R@1" else k, _recall(way, k))
        for way in ("t2i", "i2t")
        for k in RECALLS
    ]
    return (
        *columns,
        Column(mean, lambda row: NONE if row.report is None else f"{row.report.mean_recall:.1f}"),
    )


def _recall(way: str, k: str) -> Callable[[Row], str]:
    def cell(row: Row) -> str:
        return NONE if row.report is None else f"{getattr(row.report, way)[k]:.1f}"

    return cell


def seconds_column(heading: str, part: str, factor: float = 1) -> Column:
    """A figure of `Response.to_dict` in seconds, or 1000 times as many milliseconds."""

    def cell(row: Row) -> str:
        if row.response is None:
            return NONE
        about = ABOUT if row.response.scored is not None and part != "encode" else ""
        return about + figure(factor * row.response.to_dict()[part])

    return Column(heading, cell)


def figure(number: float) -> str:
    """Three digits, or all before the point."""
    return f"{number:,.0f}" if number >= 99.95 else f"{number:#.3g}" if number else "0"


AR = recall_columns("AR")
MEAN = recall_columns("mean")
PHOTO_BYTES = Column("B/photo", lambda row: NONE if row.photo_bytes is None else f"{row.photo_bytes:,.0f}")
MINUTES = Column("train min", lambda row: NONE if row.training is None else f"{row.training.minutes:.0f}")
MEMORY = Column("MB", lambda row: NONE if row.response is None else f"{row.response.peak_mb:,.0f}")
PHOTOS = Column("photos", lambda row: f"{row.photos:,}")


def _speed_up(row: Row) -> str:
    return NONE if row.speed_up is None else f"{figure(row.speed_up)}x"


LIGHTNINGDOT, VLDEFORMER, RETRIEVE = "arXiv 2103.08784", "arXiv 2110.11338", "arXiv 2103.11920"

VIEWS = {
    "stages": View(
        source=None,
        columns=(
            *MEAN,
            seconds_column("P50 ms", "p50", 1000),
            seconds_column("P99 ms", "p99", 1000),
            PHOTO_BYTES,
            MINUTES,
        ),
    ),
    "lightningdot-1": View(
        source=f"Table 1 ({LIGHTNINGDOT})",
        columns=AR,
        published="With its code (github.com/intersun/LightningDOT): Flickr30k T2I 69.9 / 91.1 / 95.2, I2T"
        " 83.9 / 97.2 / 98.6; COCO T2I 45.8 / 74.5 / 83.8, I2T 60.0 / 85.2 / 91.7; Flickr30k without"
        " fine-tuning on it T2I 53.3 / 80.6 / 88.0, I2T 68.2 / 89.1 / 94.0.",
    ),
    "lightningdot-2": View(
        source=f"Table 2 ({LIGHTNINGDOT})",
        columns=AR,
    ),
    "lightningdot-3": View(
        source=f"Table 3 ({LIGHTNINGDOT})",
        columns=(
            PHOTOS,
            seconds_column("s a query", "mean"),
            *(seconds_column(part, part) for part in ("encode", "search", "rerank")),
            Column("speed-up", _speed_up),
        ),
    ),
    "vldeformer-4": View(
        source=f"Figure 5 and Table 4 ({VLDEFORMER})",
        columns=(
            *(
                seconds_column(f"{name} ms", part, 1000)
                for name, part in (
                    ("mean", "mean"),
                    ("min", "min"),
                    ("max", "max"),
                    ("P95", "p95"),
                    ("P99.99", "p99.99"),
                )
            ),
            MEMORY,
        ),
    ),
    "vldeformer-5": View(
        source=f"Table 5 ({VLDEFORMER})",
        columns=MEAN,
        published="In its abstract: more than 1,000 times as fast as its cross-encoder, with less than 0.6 %"
        " lower average recall.",
        ablations=True,
    ),
    "retrieve-1": View(
        source=f"Table 1 ({RETRIEVE})",
        columns=MEAN,
        published="With its code (github.com/UKPLab/MMT-Retrieval), Joint+Coop from OSCAR: T2I Flickr30k"
        " 76.4 / 93.6 / 96.2, COCO with 5,000 photos 54.7 / 81.3 / 88.9.",
    ),
    "retrieve-3": View(
        source=f"Table 3 ({RETRIEVE})",
        columns=(
            PHOTOS,
            seconds_column("ms a query", "mean", 1000),
            *(seconds_column(part, part, 1000) for part in ("encode", "search", "rerank")),
        ),
    ),
    "retrieve-5": View(
        source=f"Table 5 ({RETRIEVE})",
        columns=MEAN,
    ),
    "retrieve-8": View(
        source=f"Table 8 ({RETRIEVE})",
        columns=MEAN,
    ),
    "retrieve-9": View(
        source=f"Table 9 ({RETRIEVE})",
        columns=MEAN,
    ),
}
"""By name, as `lexlip table NAME` has them."""


def rows_of(view: View, plan: Plan, questions: Questions) -> list[Row]:
    """The rows of a table; see `measure_rows`.

    Raises:
        DataError: a table of ablations is asked for of a model that is no run.
    """
    plan.check()
    without = {}
    if view.ablations:
        without = {model: left_out(lineage(run_of(model))) for model in plan.models}
    rows = measure_rows(plan, questions)
    return [
        row if row.model not in without else replace(row, method=_method(without[row.model])) for row in rows
    ]


def _method(without: Sequence[str]) -> str:
    return f"without {', '.join(without)}" if without else "full"


def cells(view: View, rows: Sequence[Row]) -> list[list[str]]:
    """The table as text, its heading first; what no row has is left out."""
    about = [Column("model", lambda row: row.model)]
    if view.ablations:
        about.append(Column("method", lambda row: row.method or NONE))
    if any(row.reranker for row in rows):
        about.append(Column("reranked by", lambda row: row.reranker or NONE))
    if len({row.fusion for row in rows if row.fusion}) > 1:
        about.append(Column("fusion", lambda row: row.fusion or NONE))
    about.append(Column("documents", lambda row: row.documents))
    if any(row.k for row in rows):
        about.append(Column("k", lambda row: str(row.k or NONE)))
    columns = [*about, *view.columns]
    return [
        [column.heading for column in columns],
        *([column.cell(row) for column in columns] for row in rows),
    ]


def notes(view: View, plan: Plan, questions: Questions, rows: Sequence[Row], name: str) -> list[str]:
    """The conditions of a table, a sentence or two each."""
    said = [_pool(questions, name)]
    if plan.recall:
        said.append(_engines(plan, rows))
    if any(row.k for row in rows):
        said.append(_reranking(plan))
    if plan.response:
        said += _response(view, plan, rows)
    if any(row.model == BM25 for row in rows):
        said.append(
            "bm25: one caption of a photo, drawn at random, is its document, the others ask; image to text,"
            " it asks for them in the photo's place. Photos without captions are not in its pool."
        )
    if any(column is MINUTES for column in view.columns):
        said.append(
            "train min: of the run's steps and those of the runs that it started from; - where a run is not"
            " at hand."
        )
    if view.source is not None:
        said.append(
            f"The paper's figures are in its {view.source}; its photos are regions that an object detector"
            " found, where patches are here."
        )
    if view.published is not None:
        said.append(view.published)
    return said


def _pool(questions: Questions, name: str) -> str:
    asking = [item for item in questions.pool.items[: questions.asking] if item.captions]
    captions = sum(len(item.captions) for item in asking)
    everything = sum(len(item.captions) for item in questions.pool.items)
    return (
        f"Measured with {len(asking):,} photos and {captions:,} captions of {name}, in a pool of"
        f" {len(questions.pool):,} photos and {everything:,} captions."
    )


def _engines(plan: Plan, rows: Sequence[Row]) -> str:
    words = [row.documents for row in rows if row.documents not in ("dense", "captions", "pairs")]
    kept = f"Words ({', '.join(dict.fromkeys(words))}) in Lucene" if words else ""
    dense = f"{plan.settings.engine or 'flat'} in Faiss" if any(r.documents == "dense" for r in rows) else ""
    both = [part for part in (kept, dense and f"dense vectors {dense}") if part]
    if not both:
        return "Recalls in percent."
    text = ", ".join(both)
    return f"Recalls in percent. {text[0].upper()}{text[1:]}."


def _reranking(plan: Plan) -> str:
    weights = f"; of a sum the first stage has {plan.weight:g}" if set(plan.fusions) - {"none"} else ""
    return f"The first k of what a first stage finds are reranked{weights}. A joint model reranks itself."


def _response(view: View, plan: Plan, rows: Sequence[Row]) -> list[str]:
    about = machine()
    asked = max((len(row.response.seconds) for row in rows if row.response is not None), default=0)
    said = [
        f"Response: text to image, from a sentence to ids, {asked} captions one at a time, on one thread of"
        f" {about['cpu']} ({about['cores']} threads), in a process of its own, after"
        f" {response.WARM_UP:g} s that do not count."
    ]
    if any(row.k for row in rows):
        said.append(
            "Reranking has the photos' tokens at hand, 2 bytes a number, which B/photo counts; up to"
            f" {TOKENS} photos stand for all."
        )
    if any(column is MEMORY for column in view.columns):
        said.append("MB: of a dense model and of a reranker both towers, of a model of words its text half.")
    for row in rows:
        if row.response is not None and row.response.scored is not None:
            said.append(
                f"{ABOUT} the cross-encoder alone was timed on {row.response.scored:,} photos with"
                f" {len(row.response.seconds)} captions, and extrapolated in proportion to {row.photos:,}."
            )
    if tuple(plan.sizes) != (None,):
        said.append("Synthetic vectors fill the pools up; they take as long as photos do.")
    return said
