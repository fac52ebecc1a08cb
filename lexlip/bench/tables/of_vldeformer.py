"""The tables of VLDeformer (Zhang et al., Knowledge-Based Systems 2022)."""

from __future__ import annotations

from lexlip.bench.tables.columns import (
    FOLDS,
    MEAN,
    MEMORY,
    PHOTOS,
    QUERIES,
    RECALLS,
    TOTAL,
    seconds_column,
)
from lexlip.bench.tables.row import I2T, T2I, quote
from lexlip.bench.tables.table import Paper

PAPER = Paper("vldeformer", "VLDeformer's {}", "arXiv 2110.11338")
RECALL_KEYS = I2T + T2I  # its tables have text retrieval first

TABLES = (
    PAPER.table(
        "Table 2",
        "recalls in five folds (COCO 1k) and in one pool (COCO 5k).",
        columns=(FOLDS, PHOTOS, *RECALLS, MEAN),
        quoted=quote(
            RECALL_KEYS,
            """
    LightningDOT | 83.9 97.2 98.6 69.9 91.1 95.2    -    -    -    -    -    - 70.0 91.6 95.5 54.0 80.8 88.5
    +Reranker    | 87.2 98.3 99.0 75.6 94.0 96.5    -    -    -    -    -    - 74.2 92.4 96.0 57.4 82.7 89.9
    UnicoderVL   | 86.2 96.3 99.0 71.5 90.9 94.9 84.3 97.3 99.3 69.7 93.5 97.2 62.3 87.1 92.8 46.7 76.0 85.3
    Uniter       | 86.9 98.1 99.2 75.5 94.0 96.6    -    -    -    -    -    - 65.7 88.6 93.8 52.9 79.9 88.0
    ImageBERT    | 87.0 97.6 99.2 73.1 92.6 96.0 85.4 98.7 99.8 73.6 94.3 97.2 66.4 89.8 94.4 50.5 78.7 87.1
    Oscar-base   |    -    -    -    -    -    - 88.4 99.1 99.8 75.7 95.2 98.3 70.0 91.1 95.5 54.0 80.8 88.5
    VinVL-base   |    -    -    -    -    -    - 89.8 98.8 99.7 78.2 95.6 98.0 74.6 92.6 96.3 58.1 83.2 90.1
    VLDeformer   | 91.7 98.7 99.6 74.2 89.4 91.3 89.2 98.9 99.9 75.9 95.4 98.0 71.9 91.8 96.2 54.7 81.0 88.6
            """,
            "Flickr30k 1k",
            "COCO 1k",
            "COCO 5k",
        ),
        published="Its figures of LightningDOT on COCO 5k are not those of LightningDOT's own paper"
        " (lightningdot-1), but all but one those of Oscar-base.",
        folds=(5, 1),
    ),
    PAPER.table(
        "Table 4",
        "the response to single queries, and memory.",
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
        quoted=quote(
            ("mean", "min", "max", "p95", "p99.99", "memory"),
            """
    VinVL, batch size 250       | 758 632 16634 846 10567 3.66_as_printed
    VinVL, batch size 500       | 375 338 7172 398 6130 5.73_as_printed
    VinVL, batch size 1000      | 197 168 3903 228 3542 9.84_as_printed
    VLDeformer, batch size 250  | 18 16 360 17 31 1.59_as_printed
    VLDeformer, batch size 500  | 16 15 369 17 51 1.60_as_printed
    VLDeformer, batch size 1000 | 16 15 382 17 33 1.60_as_printed
            """,
        ),
        published="The paper's figures of time and memory are as printed, by its batch sizes; here queries"
        " are asked one by one. The text that they were read from gives no units.",
        recall=False,
        response=True,
        plot=True,
    ),
    PAPER.table(
        "Table 5",
        "what runs leave out of its method, and recalls.",
        columns=(FOLDS, *RECALLS, MEAN),
        quoted=quote(
            RECALL_KEYS,
            """
    VLDeformer      | 89.2 98.9 99.9 75.9 95.4 98.0
    w/o contrastive | 72.5 95.8 99.0 60.7 90.2 96.2
    w/o avg pool    | 83.0 95.3 96.6 69.7 87.8 90.4
    w/o pre-train   | 81.5 97.3 98.8 64.8 91.6 95.9
    w/o decompose † | 0.3 1.0 2.0 0.1 0.2 1.6
            """,
        ),
        published="Its first line has the figures of COCO 1k in its Table 2. In its abstract: more than 1,000"
        " times as fast as its cross-encoder, with less than 0.6 % lower average recall.",
        ablations="vldeformer",
        reranks="never",
        folds=(1,),
    ),
    PAPER.table(
        "Figure 5",
        "seconds in all for the queries of pools of several sizes.",
        columns=(PHOTOS, QUERIES, seconds_column("s a query", "mean"), TOTAL),
        recall=False,
        response=True,
        total=True,
        pairs=True,
        sizes=(1_000, 5_000, 10_000),
    ),
)
