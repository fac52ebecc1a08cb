"""The tables of LightningDOT (Sun et al., NAACL 2021)."""

from __future__ import annotations

from lexlip.bench.tables.columns import (
    AR,
    LANGUAGES,
    PHOTOS,
    RECALLS,
    SPEED_UP,
    average_column,
    recall_columns,
    seconds_column,
)
from lexlip.bench.tables.row import I2T, T2I, quote
from lexlip.bench.tables.table import Paper

PAPER = Paper("lightningdot", "LightningDOT's {}", "arXiv 2103.08784")
CUTOFFS = (5, 10, 20)

TABLES = (
    PAPER.table(
        "Table 1",
        "recalls and their mean (AR).",
        columns=(*RECALLS, AR),
        # AR is from its prose, the recalls are from LexLIP's Table 1; their mean is that AR.
        quoted=quote(
            (*T2I, *I2T, "AR"),
            """
    LightningDOT | 69.9 91.1 95.2 83.9 97.2 98.6 89.3 45.8 74.6 83.8 60.1 85.1 91.8 73.5
    CAAN         |    -    -    -    -    -    - 79.8    -    -    -    -    -    - 70.2
            """,
            "Flickr30k 1k",
            "COCO 5k",
        ),
        published="Its recalls as LexLIP's Table 1 (arXiv 2302.02908) has them. With its code"
        " (github.com/intersun/LightningDOT): Flickr30k T2I 69.9 / 91.1 / 95.2, I2T 83.9 / 97.2 / 98.6;"
        " COCO T2I 45.8 / 74.5 / 83.8, I2T 60.0 / 85.2 / 91.7; Flickr30k without fine-tuning on it T2I"
        " 53.3 / 80.6 / 88.0, I2T 68.2 / 89.1 / 94.0.",
    ),
    PAPER.table(
        "Table 2",
        "recalls at 5, 10 and 20 in a larger pool (--pool), and AR.",
        columns=(*recall_columns(CUTOFFS), AR),
        cutoffs=CUTOFFS,
        quoted=quote(
            ("AR",),
            """
    LightningDOT           | 70.2 44.4
    LightningDOT, reranked | 76.2 56.4
            """,
            "Flickr30k 31k",
            "COCO 123k",
        ),
        pool="must",
    ),
    PAPER.table(
        "Table 3",
        "seconds per query, and the speed-up over the cross-encoder.",
        columns=(
            PHOTOS,
            seconds_column("s a query", "mean"),
            *(seconds_column(stage, stage) for stage in ("encode", "search", "rerank")),
            SPEED_UP,
        ),
        quoted=quote(
            ("speed-up",),
            """
    LightningDOT           | 639x 1927x 6591x   23869x
    LightningDOT, reranked |  46x   95x >1,000x >2,000x
            """,
            "Flickr30k",
            "COCO",
            "Flickr30k, full pool",
            "COCO, full pool",
        ),
        published="In its prose, over UNITER-base; SCAN has about 1.9x, and UNITER takes about 28 days"
        " for the full pools. It also has 48 s a query on COCO.",
        recall=False,
        response=True,
        pairs=True,
        reranks="must",
        pool="may",
    ),
    PAPER.table(
        "Table 4",
        "what runs were trained with, phase by phase, and recalls.",
        columns=(*RECALLS, AR),
        published="In its prose: CMR alone, +1.4 AR.",
        ablations="objectives",
        reranks="never",
    ),
    PAPER.table(
        "Table 5",
        "what the two towers of runs start from, and recalls.",
        columns=(*RECALLS, AR),
        published="The paper's ablations of objectives and of towers are its Tables 4 and 5; that this is the"
        " one of towers is an assumption.",
        ablations="towers",
        reranks="never",
    ),
    PAPER.table(
        "Table 6",
        "mean recalls (AR) with captions in several languages.",
        columns=(*LANGUAGES, average_column()),
        several="languages",
    ),
)
