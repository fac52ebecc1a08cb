"""What a reader must know about a table of stages: how it was measured, and where the paper's figures are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lexlip.bench import clocks
from lexlip.bench.tables.columns import EXTRAPOLATED, MEMORY, MINUTES, TRAINED_ON, UNKNOWN
from lexlip.bench.tables.row import Row
from lexlip.bench.tables.stages import Plan, QueryPool
from lexlip.bench.tables.timed_stage import TOKENS
from lexlip.machine import resources
from lexlip.registry import BM25

TAIL = 10_000  # queries of which one is beyond P99.99


def notes(
    plan: Plan, pool: QueryPool, rows: Sequence[Row], name: str, others: Mapping[str, QueryPool] | None = None
) -> list[str]:
    """Return the conditions of a table, a sentence or two each.

    `name` is that of the photos; `others` are further ones by name, which were measured on by themselves.
    """
    table = plan.table
    said = [_pool(pool, name), *(_pool(other, what) for what, other in (others or {}).items())]
    if table.folds and max(plan.folds) > 1:
        said.append(
            "folds: so many parts of consecutive photos, each a pool of its own; recalls are means over them."
        )
    if table.measure == "evaluations":
        said.append(_evaluations(rows))
    if table.recall:
        said.append(_engines(plan, rows))
    if any(row.k for row in rows):
        said.append(_reranking(plan))
    if table.response:
        said += _response(plan, rows)
    if any(row.model == BM25 for row in rows):
        said.append(
            "bm25: one caption of a photo, drawn at random, is its document, the others are queries; image to"
            " text, it searches for them in the photo's place. Photos without captions are not in its pool."
        )
    if MINUTES in table.columns:
        said.append(
            "train min: of the run's steps and those of the runs that it started from; - if a run cannot be"
            " found."
        )
    if TRAINED_ON in table.columns:
        said.append("trained on: the photos of a model's runs; - if it is not a run.")
    if table.ablations is not None:
        said += ABOUT.get(table.ablations, [])
    if table.paper is not None:
        said.append(_paper(table.paper, bool(table.quoted)))
    if table.published is not None:
        said.append(table.published)
    return said


_PHASES = (
    "CMR is the contrastive loss. Phases follow one another; one that is not fused leaves the other"
    " modality's vector out."
)
ABOUT = {
    "vldeformer": [
        "without decomposing: a cross-encoder's weights used as a VLDeformer's, untrained for it. Without"
        " contrastive loss: a run with triplets instead."
    ],
    "design": [_PHASES],
    "objectives": [_PHASES],
    "training photos": [
        "training photos: those of the last phase that its sources have now, or its sample of them."
    ],
    "layers": ["layers: of the text encoder, whose layers some kinds run photo tokens through too."],
}
"""What the names of rows mean, by `Table.ablations`."""


def _paper(paper: str, quoted: bool) -> str:
    regions = "its photos are regions that an object detector found, where patches are used here."
    if not quoted:
        return f"The paper's figures are in its {paper}; {regions}"
    return f"Lines marked paper are of its {paper}; {UNKNOWN} is what it does not give, and {regions}"


def _evaluations(rows: Sequence[Row]) -> str:
    about = resources.describe()
    said = (
        "total s: of encoding all photos and captions, indexing them, and searching text to image and"
        f" image to text, on {about['cores']} threads of {about['cpu']}."
    )
    photos = {row.evaluation.extrapolated for row in rows if row.evaluation and row.evaluation.extrapolated}
    if photos:
        said += (
            f" {EXTRAPOLATED}: extrapolated from {max(photos):,} photos or fewer; searching, and a"
            " cross-encoder alone, to the square of their number."
        )
    return said


def _pool(pool: QueryPool, name: str) -> str:
    queries = [item for item in pool.source.items[: pool.queries] if item.captions]
    captions = sum(len(item.captions) for item in queries)
    everything = sum(len(item.captions) for item in pool.source.items)
    return (
        f"Measured with {len(queries):,} photos and {captions:,} captions of {name}, in a pool of"
        f" {len(pool.source):,} photos and {everything:,} captions."
    )


def _engines(plan: Plan, rows: Sequence[Row]) -> str:
    words = [row.documents for row in rows if row.documents not in ("dense", "captions", "pairs")]
    engines = []
    if words:
        engines.append(f"words ({', '.join(dict.fromkeys(words))}) in Lucene")
    if any(row.documents == "dense" for row in rows):
        engines.append(f"dense vectors {plan.settings.engine or 'flat'} in Faiss")
    if not engines:
        return "Recalls in percent."
    text = ", ".join(engines)
    return f"Recalls in percent. {text[0].upper()}{text[1:]}."


def _reranking(plan: Plan) -> str:
    weights = f"; in a sum the first stage has {plan.weight:g}" if set(plan.fusions) - {"none"} else ""
    return f"The first k of what a first stage finds are reranked{weights}. A joint model reranks itself."


def _response(plan: Plan, rows: Sequence[Row]) -> list[str]:
    about = resources.describe()
    timed = max((len(row.response.seconds) for row in rows if row.response is not None), default=0)
    said = [
        f"Response: text to image, from a sentence to ids, {timed} captions one at a time, on one thread of"
        f" {about['cpu']} ({about['cores']} threads), in a process of its own, after {clocks.WARM_UP:g} s"
        " that do not count."
    ]
    if any(row.k for row in rows):
        said.append(
            "Reranking reads the photos' tokens from memory, 2 bytes a number, which B/photo counts; up to"
            f" {TOKENS} photos stand for all."
        )
    if any(column.key == "p99.99" for column in plan.table.columns) and timed < TAIL:
        said.append(
            f"P99.99 of {timed:,} queries is practically the longest of them; it takes {TAIL:,} to say more"
            " (--queries)."
        )
    if plan.table.total:
        said.append(
            "total s: of all queries one after another; a pool has as many for each photo as SOURCE has"
            " captions of a photo."
        )
    if MEMORY in plan.table.columns:
        said.append(
            "MB: of a dense model and of a reranker both encoders, of a model of words its text half."
        )
    for row in rows:
        if row.response is not None and row.response.scored is not None:
            said.append(
                f"{EXTRAPOLATED} the cross-encoder alone was timed on {row.response.scored:,} photos with"
                f" {len(row.response.seconds)} captions, and extrapolated in proportion to {row.photos:,}."
            )
    if tuple(plan.sizes) != (None,):
        said.append("Synthetic vectors fill up the pools; they take as long as photos do.")
    return said
