"""`lexlip table stages`, and the tables of the papers about dense dual encoders and cross-encoders."""

from __future__ import annotations

from typing import Any

from lexlip.bench.tables.columns import (
    AR,
    MEAN,
    MEMORY,
    MINUTES,
    PHOTO_BYTES,
    PHOTOS,
    RECALLS,
    SPEED_UP,
    seconds_column,
)
from lexlip.bench.tables.row import Row
from lexlip.bench.tables.table import Table

LIGHTNINGDOT, VLDEFORMER, RETRIEVE = "arXiv 2103.08784", "arXiv 2110.11338", "arXiv 2103.11920"


def _row(row: Row) -> dict[str, Any]:
    return {
        "model": row.model,
        "method": row.method,
        "rerank": row.reranker,
        "k": row.k,
        "fusion": row.fusion,
        "documents": row.documents,
        "photos": row.photos,
        "t2i": row.t2i,
        "i2t": row.i2t,
        "mean_recall": row.report and row.report.mean_recall,
        "seconds": row.response and row.response.to_dict(),
        "speed_up": row.speed_up,
        "photo_bytes": row.photo_bytes,
        "training_minutes": row.training and row.training.minutes,
        "training_steps": row.training and row.training.steps,
    }


_QUALITY = (*RECALLS, MEAN)

TABLES = (
    Table(
        name="stages",
        title="Compare stages: recall, response, index and training, alone and reranked.",
        columns=(
            *_QUALITY,
            seconds_column("P50 ms", "p50", 1000),
            seconds_column("P99 ms", "p99", 1000),
            PHOTO_BYTES,
            MINUTES,
        ),
        to_dict=_row,
        response=True,
    ),
    # ---- LightningDOT (Sun et al., NAACL 2021) ----
    Table(
        name="lightningdot-1",
        title="LightningDOT's Table 1: recalls and their mean (AR).",
        columns=(*RECALLS, AR),
        to_dict=_row,
        paper=f"Table 1 ({LIGHTNINGDOT})",
        published="With its code (github.com/intersun/LightningDOT): Flickr30k T2I 69.9 / 91.1 / 95.2, I2T"
        " 83.9 / 97.2 / 98.6; COCO T2I 45.8 / 74.5 / 83.8, I2T 60.0 / 85.2 / 91.7; Flickr30k without"
        " fine-tuning on it T2I 53.3 / 80.6 / 88.0, I2T 68.2 / 89.1 / 94.0.",
    ),
    Table(
        name="lightningdot-2",
        title="LightningDOT's Table 2: recalls in a larger pool (--pool).",
        columns=(*RECALLS, AR),
        to_dict=_row,
        paper=f"Table 2 ({LIGHTNINGDOT})",
        pool="must",
    ),
    Table(
        name="lightningdot-3",
        title="LightningDOT's Table 3: seconds per query, and the speed-up over the cross-encoder.",
        columns=(
            PHOTOS,
            seconds_column("s a query", "mean"),
            *(seconds_column(stage, stage) for stage in ("encode", "search", "rerank")),
            SPEED_UP,
        ),
        to_dict=_row,
        paper=f"Table 3 ({LIGHTNINGDOT})",
        recall=False,
        response=True,
        pairs=True,
        reranks="must",
        pool="may",
    ),
    # ---- VLDeformer (Zhang et al., Knowledge-Based Systems 2022) ----
    Table(
        name="vldeformer-4",
        title="VLDeformer's Figure 5 and Table 4: the response to single queries, and memory.",
        columns=(
            *(
                seconds_column(f"{name} ms", figure, 1000)
                for name, figure in (
                    ("mean", "mean"),
                    ("min", "min"),
                    ("max", "max"),
                    ("P95", "p95"),
                    ("P99.99", "p99.99"),
                )
            ),
            MEMORY,
        ),
        to_dict=_row,
        paper=f"Figure 5 and Table 4 ({VLDEFORMER})",
        recall=False,
        response=True,
        plot=True,
    ),
    Table(
        name="vldeformer-5",
        title="VLDeformer's Table 5: what runs leave out of its method, and recalls.",
        columns=_QUALITY,
        to_dict=_row,
        paper=f"Table 5 ({VLDEFORMER})",
        published="In its abstract: more than 1,000 times as fast as its cross-encoder, with less than 0.6 %"
        " lower average recall.",
        ablations="vldeformer",
        reranks="never",
    ),
    # ---- Retrieve Fast, Rerank Smart (Geigle et al., TACL 2022) ----
    Table(
        name="retrieve-1",
        title="Table 1 of Retrieve Fast, Rerank Smart: recalls of first stages, of the cross-encoder, and of"
        " both.",
        columns=_QUALITY,
        to_dict=_row,
        paper=f"Table 1 ({RETRIEVE})",
        published="With its code (github.com/UKPLab/MMT-Retrieval), Joint+Coop from OSCAR: T2I Flickr30k"
        " 76.4 / 93.6 / 96.2, COCO with 5,000 photos 54.7 / 81.3 / 88.9.",
        pairs=True,
        queries_only=True,
        reranks="must",
    ),
    Table(
        name="retrieve-3",
        title="Table 3 of Retrieve Fast, Rerank Smart: milliseconds per query in pools of several sizes.",
        columns=(
            PHOTOS,
            seconds_column("ms a query", "mean", 1000),
            *(seconds_column(stage, stage, 1000) for stage in ("encode", "search", "rerank")),
        ),
        to_dict=_row,
        paper=f"Table 3 ({RETRIEVE})",
        recall=False,
        response=True,
        pairs=True,
        reranks="must",
        sizes=(50_000, 1_000_000),
    ),
    Table(
        name="retrieve-5",
        title="Table 5 of Retrieve Fast, Rerank Smart: recalls in a larger pool (--pool).",
        columns=_QUALITY,
        to_dict=_row,
        paper=f"Table 5 ({RETRIEVE})",
        pool="must",
    ),
    Table(
        name="retrieve-8",
        title="Table 8 of Retrieve Fast, Rerank Smart: recalls by the number of candidates.",
        columns=_QUALITY,
        to_dict=_row,
        paper=f"Table 8 ({RETRIEVE})",
        reranks="must",
        ks=(10, 20, 50),
    ),
    Table(
        name="retrieve-9",
        title="Table 9 of Retrieve Fast, Rerank Smart: recalls by how the two scores are combined.",
        columns=_QUALITY,
        to_dict=_row,
        paper=f"Table 9 ({RETRIEVE})",
        reranks="must",
        fusions=("none", "add", "norm_add"),
    ),
)
