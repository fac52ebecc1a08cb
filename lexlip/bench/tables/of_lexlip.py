"""Tables 1, 2 and 3 of the LexLIP paper (arXiv 2302.02908)."""

from __future__ import annotations

from typing import Any

from lexlip.bench.tables.columns import (
    ACCOUNTED,
    DOCUMENTS,
    MEAN,
    MEGABYTES,
    MEGABYTES_WITHOUT_IDS,
    METHOD,
    MODEL,
    QPS,
    REAL_BYTES,
    RECALLS,
    SYSTEM,
    WORDS_AT_10,
    WORDS_KEPT,
)
from lexlip.bench.tables.row import Row
from lexlip.bench.tables.table import Table

PAPER = "arXiv 2302.02908"

SYSTEMS: dict[tuple[str, str], dict[str, float | None]] = {
    ("BM25", "captions"): {"megabytes": 195, "qps": 780, "recall": None},
    ("CLIP, one by one", "dense"): {"megabytes": 2000, "qps": 3.60, "recall": 14.0},
    ("LexLIP", "all"): {"megabytes": 152, "qps": 19.7, "recall": 48.6},
    ("LexLIP", "top-64"): {"megabytes": 114, "qps": 63, "recall": 47.6},
    ("LexLIP", "top-32"): {"megabytes": 71, "qps": 249, "recall": 42.0},
    ("LexLIP", "top-16"): {"megabytes": 47, "qps": 610, "recall": 28.3},
    ("LexLIP", "top-12"): {"megabytes": 41, "qps": 797, "recall": 22.3},
    ("LexLIP", "top-8"): {"megabytes": 34, "qps": 985, "recall": 14.6},
}
"""Table 2 by system and what it keeps of a photo: MB, queries per second, and T2I R@1 in percent."""


def _model(row: Row) -> dict[str, Any]:
    assert row.report is not None
    method = {} if row.method is None else {"method": row.method}
    return {"model": row.model, **method, "documents": row.documents, **row.report.to_dict()}


def _system(row: Row) -> dict[str, Any]:
    return {
        "system": row.model,
        "documents": row.documents,
        "photos": row.photos,
        "megabytes": row.index and row.index.megabytes,
        "megabytes_without_ids": row.index and row.index.megabytes_without_ids,
        "photo_bytes_by_the_papers_accounting": row.index and row.index.accounted,
        "photo_bytes": row.photo_bytes,
        "qps": row.qps,
        "t2i": row.t2i,
        "i2t": row.i2t,
        "paper": SYSTEMS.get((row.model, row.documents)),
    }


_QUALITY = (*RECALLS, MEAN, WORDS_KEPT, WORDS_AT_10)

TABLES = (
    Table(
        name="1",
        title="LexLIP's Table 1: compare models.",
        measure="models",
        labels=(MODEL, DOCUMENTS),
        columns=_QUALITY,
        to_dict=_model,
        paper="The paper's figures, on the test sets of Flickr30k (1k) and MSCOCO (5k), are in its Table 1"
        f" ({PAPER}).",
    ),
    Table(
        name="2",
        title="LexLIP's Table 2: compare systems by index size, speed and recall.",
        measure="systems",
        labels=(SYSTEM, DOCUMENTS),
        columns=(MEGABYTES, MEGABYTES_WITHOUT_IDS, ACCOUNTED, REAL_BYTES, QPS, *RECALLS),
        to_dict=_system,
        figures=SYSTEMS,
        figure_headings={"megabytes": "paper MB", "qps": "paper QPS", "recall": "paper R@1"},
        paper=f"paper: its Table 2 ({PAPER}), T2I R@1 of its own model among a test set and a million further"
        " photos, on its machine.",
    ),
    Table(
        name="3",
        title="LexLIP's Table 3: compare ablations.",
        measure="models",
        labels=(MODEL, METHOD, DOCUMENTS),
        columns=_QUALITY,
        to_dict=_model,
        ablations="lexlip",
        paper=f"The paper's figures are in its Table 3 ({PAPER}).",
    ),
)
