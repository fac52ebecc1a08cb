"""Tables 1, 2 and 3 of the LexLIP paper (arXiv 2302.02908)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lexlip.bench.tables.columns import (
    ACCOUNTED,
    AGREED_WORDS,
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
    UNKNOWN,
    WORDS_AT_10,
    WORDS_KEPT,
)
from lexlip.bench.tables.row import I2T, T2I, Row, quote
from lexlip.bench.tables.table import Table

PAPER = "arXiv 2302.02908"

MODELS = quote(
    T2I + I2T,
    """
    Frozen (5.5M pairs)          | 61.0 87.5 92.7    -    -    -    -    -    -    -    -    -
    LightDOT (9.5M pairs)        | 69.9 91.1 95.2 83.9 97.2 98.6 45.8 74.6 83.8 60.1 85.1 91.8
    COOKIE (5.9M pairs)          | 68.3 91.1 95.2 84.7 96.9 98.3 46.6 75.2 84.1 61.7 86.7 92.3
    ViSTA (9.5M pairs)           | 68.9 91.1 95.1 84.8 97.4 99.0 47.8 75.8 84.5 63.9 87.8 93.6
    Dense (4.3M pairs)           | 74.0 92.8 95.6 88.0 98.1 99.5 49.5 76.7 85.4 65.5 88.6 94.3
    COTS (5.3M pairs)            | 75.2 93.6 96.5 88.2 98.5 99.7 50.5 77.6 86.1 66.9 88.8 94.0
    COTS (15.3M pairs)           | 76.5 93.9 96.6 90.6 98.7 99.7 52.4 79.0 86.9 69.0 90.4 94.9
    LexLIP (4.3M pairs)          | 76.7 93.7 96.8 89.6 98.7 99.6 51.9 78.3 86.3 67.9 89.7 94.8
    LexLIP (14.3M pairs)         | 78.4 94.6 97.1 91.4 99.2 99.7 53.2 79.1 86.7 70.2 90.7 95.2
    """,
    "Flickr30k 1k",
    "COCO 5k",
)
"""Table 1."""

ABLATIONS = quote(
    T2I + I2T,
    """
    row 1 | 67.5 89.7 94.1 81.3 96.4 98.9
    row 2 | 59.5 85.6 91.8 73.4 92.9 96.5
    row 3 | 61.0 86.7 92.1 72.7 92.6 96.6
    row 4 | 66.5 89.4 93.8 81.7 95.0 97.9
    row 5 | 66.9 89.6 94.1 80.8 95.5 98.7
    row 6 | 67.0 89.3 93.5 78.7 95.2 97.8
    """,
)
"""Table 3, whose tick marks are lost: which row leaves out what is not known."""

SYSTEM_HEADINGS = {
    "megabytes": "paper MB",
    "photo_bytes": "paper B/photo",
    "qps": "paper QPS",
    "recall": "paper R@1",
    "t2i R@5": "paper R@5",
    "t2i R@10": "paper R@10",
    "i2t R@1": "paper I2T R@1",
    "i2t R@5": "paper R@5",
    "i2t R@10": "paper R@10",
}

SYSTEMS: dict[tuple[str, str], dict[str, float | None]] = {
    system: dict(zip(SYSTEM_HEADINGS, figures, strict=True))
    for system, figures in {
        ("BM25", "captions"): (195, 195, 780.18, 16.8, 27.3, 31.9, 34.0, 50.7, 58.2),
        ("CLIP, one by one", "dense"): (2000, 1998, 3.60, 14.0, 28.7, 36.6, 35.4, 59.9, 70.0),
        ("LexLIP", "all"): (152, 152, 19.70, 48.6, 66.8, 71.8, 64.1, 86.5, 91.4),
        ("LexLIP", "top-64"): (114, 192, 63.43, 47.6, 65.7, 70.6, 64.4, 86.7, 91.1),
        ("LexLIP", "top-32"): (71, 96, 249.06, 42.0, 59.3, 64.7, 59.4, 83.4, 87.7),
        ("LexLIP", "top-16"): (47, 48, 610.08, 28.3, 44.2, 50.6, 47.4, 70.1, 75.9),
        ("LexLIP", "top-12"): (41, 36, 796.65, 22.3, 35.9, 41.4, 40.9, 60.4, 70.2),
        ("LexLIP", "top-8"): (34, 24, 985.40, 14.6, 24.7, 29.5, 28.6, 47.2, 55.5),
    }.items()
}
"""Table 2 by system and what it keeps of a photo; "recall" is T2I R@1 in percent."""


def _model(row: Row) -> dict[str, Any]:
    if row.runs:
        from statistics import fmean, stdev

        each = [_model(run) for run in row.runs]
        mean, deviation = _over(each, fmean), _over(each, stdev)
        return {**mean, "model": row.model, "deviation": deviation, "runs": each}
    assert row.report is not None
    method = {} if row.method is None else {"method": row.method}
    return {"model": row.model, **method, "documents": row.documents, **row.report.to_dict()}


def _over(values: list[Any], function: Callable[[list[float]], float]) -> Any:
    """Return a function of the numbers in several values of JSON; None where they are not all numbers."""
    if all(isinstance(value, dict) for value in values):
        return {key: _over([value[key] for value in values], function) for key in values[0]}
    if all(isinstance(value, int | float) for value in values):
        return function(values)
    return values[0] if values.count(values[0]) == len(values) else None


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
        "paper": SYSTEMS.get(row.in_paper),
    }


_QUALITY = (*RECALLS, MEAN, WORDS_KEPT, WORDS_AT_10, AGREED_WORDS)

TABLES = (
    Table(
        name="1",
        title="LexLIP's Table 1: compare models.",
        measure="models",
        labels=(MODEL, DOCUMENTS),
        columns=_QUALITY,
        to_dict=_model,
        quoted=MODELS,
        paper=f"Lines marked paper: its Table 1 ({PAPER}), on the test sets of Flickr30k and MSCOCO;"
        f" {UNKNOWN} is what it does not give.",
    ),
    Table(
        name="2",
        title="LexLIP's Table 2: compare systems by index size, speed and recall.",
        measure="systems",
        labels=(SYSTEM, DOCUMENTS),
        columns=(MEGABYTES, MEGABYTES_WITHOUT_IDS, ACCOUNTED, REAL_BYTES, QPS, *RECALLS),
        to_dict=_system,
        figures=SYSTEMS,
        figure_headings=SYSTEM_HEADINGS,
        paper=f"paper: its Table 2 ({PAPER}), of its own models among Flickr30k's test set and a million"
        " further photos, on its machine; first T2I, then I2T. Its dense model is CLIP. B/photo is an average"
        " there, and of top-K the most.",
    ),
    Table(
        name="3",
        title="LexLIP's Table 3: compare ablations.",
        measure="models",
        labels=(MODEL, METHOD, DOCUMENTS),
        columns=_QUALITY,
        to_dict=_model,
        ablations="lexlip",
        quoted=ABLATIONS,
        paper=f"Lines marked paper: its Table 3 ({PAPER}), row by row; what each row leaves out is not"
        " marked in the text that they were read from.",
    ),
)
