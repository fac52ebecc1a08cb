"""The columns that tables show: a heading, and what a row shows there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lexlip.bench.tables.row import Row

NONE = "-"
EXTRAPOLATED = "≈"  # before what is extrapolated


@dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
        heading: its first line.
        cell: what a row shows there.
        shown: whether a table shows the column, given all its rows.
        is_text: aligned to the left.
    """

    heading: str
    cell: Callable[[Row], str]
    shown: Callable[[list[Row]], bool] = lambda rows: True
    is_text: bool = False


def figure(number: float | None) -> str:
    """Return three digits, or all before the decimal point."""
    if number is None:
        return NONE
    return f"{number:,.0f}" if number >= 99.95 else f"{number:#.3g}" if number else "0"


def number_column(heading: str, value: Callable[[Row], float | None], form: str = "") -> Column:
    """Return a column of numbers in a format, or as `figure` writes them."""

    def cell(row: Row) -> str:
        number = value(row)
        return NONE if number is None else f"{number:{form}}" if form else figure(number)

    return Column(heading, cell)


def seconds_column(heading: str, stage: str, unit: float = 1) -> Column:
    """Return a column of a figure of `Response.to_dict`, in seconds; `unit` is 1000 for milliseconds."""

    def cell(row: Row) -> str:
        if row.response is None:
            return NONE
        about = EXTRAPOLATED if row.response.scored is not None and stage != "encode" else ""
        return about + figure(unit * row.response.to_dict()[stage])

    return Column(heading, cell)


def _any(value: Callable[[Row], object]) -> Callable[[list[Row]], bool]:
    """Show a column only if a row has this value."""
    return lambda rows: any(value(row) for row in rows)


def _recall(way: Callable[[Row], Mapping[str, float] | None], k: str) -> Callable[[Row], float | None]:
    def value(row: Row) -> float | None:
        recalls = way(row)
        return None if recalls is None else recalls[k]

    return value


# ---- what a row is ----

MODEL = Column("model", lambda row: row.model, is_text=True)
SYSTEM = Column("system", lambda row: row.model, is_text=True)
METHOD = Column("method", lambda row: row.method or NONE, _any(lambda row: row.method), is_text=True)
RERANKER = Column(
    "reranked by", lambda row: row.reranker or NONE, _any(lambda row: row.reranker), is_text=True
)
FUSION = Column(
    "fusion",
    lambda row: row.fusion or NONE,
    lambda rows: len({row.fusion for row in rows if row.fusion}) > 1,
    is_text=True,
)
DOCUMENTS = Column("documents", lambda row: row.documents, is_text=True)
K = Column("k", lambda row: str(row.k or NONE), _any(lambda row: row.k))
LABELS = (MODEL, METHOD, RERANKER, FUSION, DOCUMENTS, K)

# ---- quality ----

RECALLS = (
    number_column("T2I R@1", _recall(lambda row: row.t2i, "R@1"), ".1f"),
    number_column("R@5", _recall(lambda row: row.t2i, "R@5"), ".1f"),
    number_column("R@10", _recall(lambda row: row.t2i, "R@10"), ".1f"),
    number_column("I2T R@1", _recall(lambda row: row.i2t, "R@1"), ".1f"),
    number_column("R@5", _recall(lambda row: row.i2t, "R@5"), ".1f"),
    number_column("R@10", _recall(lambda row: row.i2t, "R@10"), ".1f"),
)
MEAN = number_column("mean", lambda row: row.report.mean_recall if row.report else None, ".1f")
AR = number_column("AR", lambda row: row.report.mean_recall if row.report else None, ".1f")
WORDS_KEPT = number_column("terms", lambda row: row.report.terms_kept if row.report else None, ".1f")
WORDS_AT_10 = number_column("words@10", lambda row: row.report.words_at_10 if row.report else None, ".3f")

# ---- cost ----

PHOTOS = number_column("photos", lambda row: row.photos, ",")
PHOTO_BYTES = number_column("B/photo", lambda row: row.photo_bytes, ",.0f")
MINUTES = number_column("train min", lambda row: row.training.minutes if row.training else None, ".0f")
MEMORY = number_column("MB", lambda row: row.response.peak_mb if row.response else None, ",.0f")
SPEED_UP = Column("speed-up", lambda row: NONE if row.speed_up is None else f"{figure(row.speed_up)}x")
QPS = number_column("QPS", lambda row: row.qps)
MEGABYTES = number_column("MB", lambda row: row.index.megabytes if row.index else None)
MEGABYTES_WITHOUT_IDS = number_column(
    "no ids", lambda row: row.index.megabytes_without_ids if row.index else None
)
ACCOUNTED = number_column("B/photo", lambda row: row.index.accounted if row.index else None, ".0f")
REAL_BYTES = number_column("real", lambda row: row.photo_bytes, ".0f")
