"""The columns that tables show: a heading, and what a row shows there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from lexlip.bench.tables.quoted import Quoted
from lexlip.bench.tables.row import Row

NONE = "-"
UNKNOWN = "–"  # what a paper does not give
EXTRAPOLATED = "≈"  # before what is extrapolated
NAME = "name"  # the key of the column that names a paper's lines


@dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
        heading: its first line.
        cell: what a row shows there.
        shown: whether a table shows the column, given all its rows.
        is_text: aligned to the left.
        key: of its figures in lines of the papers (`Quoted.figures`).
        form: a format of these; "": as the paper prints them.
    """

    heading: str
    cell: Callable[[Row], str]
    shown: Callable[[list[Row]], bool] = lambda rows: True
    is_text: bool = False
    key: str = ""
    form: str = ""

    def quoted(self, line: Quoted) -> str:
        """Return what a paper's line shows there."""
        if self.key == NAME:
            return str(line)
        value = line.figures.get(self.key, UNKNOWN)
        if isinstance(value, str):
            return value
        return f"{value:{self.form or ','}}"


def figure(number: float | None) -> str:
    """Return three digits, or all before the decimal point."""
    if number is None:
        return NONE
    return f"{number:,.0f}" if number >= 99.95 else f"{number:#.3g}" if number else "0"


def number_column(
    heading: str, value: Callable[[Row], float | None], form: str = "", key: str = ""
) -> Column:
    """Return a column of numbers in a format, or as `figure` writes them; `key` is that of a paper's."""

    def cell(row: Row) -> str:
        number = value(row)
        return NONE if number is None else f"{number:{form}}" if form else figure(number)

    return Column(heading, cell, key=key, form=form)


def seconds_column(heading: str, stage: str, unit: float = 1) -> Column:
    """Return a column of a figure of `Response.to_dict`, in seconds; `unit` is 1000 for milliseconds."""

    def cell(row: Row) -> str:
        if row.response is None:
            return NONE
        about = EXTRAPOLATED if row.response.scored is not None and stage != "encode" else ""
        return about + figure(unit * row.response.to_dict()[stage])

    return Column(heading, cell, key=stage)


def _any(value: Callable[[Row], object]) -> Callable[[list[Row]], bool]:
    """Show a column only if a row has this value."""
    return lambda rows: any(value(row) for row in rows)


def _recall(way: Callable[[Row], Mapping[str, float] | None], k: str) -> Callable[[Row], float | None]:
    def value(row: Row) -> float | None:
        recalls = way(row)
        return None if recalls is None else recalls.get(k)

    return value


def _in_language(language: str, row: Row) -> float | None:
    report = None if row.languages is None else row.languages.get(language)
    return None if report is None else report.mean_recall


def _evaluation(heading: str, part: str) -> Column:
    def cell(row: Row) -> str:
        if row.evaluation is None:
            return NONE
        about = "" if row.evaluation.extrapolated is None else EXTRAPOLATED
        return about + figure(getattr(row.evaluation, part))

    return Column(heading, cell, key="evaluation" if part == "total" else part)


def _total(row: Row) -> str:
    if row.response is None or row.total_seconds is None:
        return NONE
    return ("" if row.response.scored is None else EXTRAPOLATED) + figure(row.total_seconds)


# ---- what a row is ----

MODEL = Column("model", lambda row: row.model, is_text=True, key=NAME)
SYSTEM = Column("system", lambda row: row.model, is_text=True, key=NAME)
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

FOLDS = Column("folds", lambda row: str(row.folds or NONE), _any(lambda row: (row.folds or 1) > 1))
COLLECTION = Column("photos of", lambda row: row.collection or NONE, is_text=True)
TRAINED_ON = Column("trained on", lambda row: row.trained_on or NONE, is_text=True)

# ---- quality ----


def recall_columns(cutoffs: Sequence[int]) -> tuple[Column, ...]:
    """Return the columns of recalls at these numbers of hits, of both directions."""
    ways: tuple[tuple[str, Callable[[Row], Mapping[str, float] | None]], ...] = (
        ("t2i", lambda row: row.t2i),
        ("i2t", lambda row: row.i2t),
    )
    return tuple(
        number_column(
            f"{way.upper()} R@{k}" if k == cutoffs[0] else f"R@{k}",
            _recall(recalls, f"R@{k}"),
            ".1f",
            key=f"{way} R@{k}",
        )
        for way, recalls in ways
        for k in cutoffs
    )


RECALLS = recall_columns((1, 5, 10))
MEAN = number_column("mean", lambda row: row.report.mean_recall if row.report else None, ".1f", key="mean")
AR = number_column("AR", lambda row: row.average_recall, ".1f", key="AR")
LANGUAGES = tuple(
    number_column(language, partial(_in_language, language), ".1f", key=language)
    for language in ("en", "de", "fr", "cs")
)


def average_column(english: bool = True) -> Column:
    """Return the column of the mean over languages, with English or without."""

    def value(row: Row) -> float | None:
        reports = (row.languages or {}).items()
        means = [report.mean_recall for language, report in reports if english or language != "en"]
        return sum(means) / len(means) if means else None

    return number_column("average", value, ".1f", key="average")


WORDS_KEPT = number_column("terms", lambda row: row.report.terms_kept if row.report else None, ".1f")
WORDS_AT_10 = number_column("words@10", lambda row: row.report.words_at_10 if row.report else None, ".3f")


def _agreed_words(row: Row) -> float | None:
    short = row.report.short_queries if row.report else None
    agreed = short["agreed_words"] if short else None
    return agreed["P@5"] if agreed else None


AGREED_WORDS = number_column("words P@5", _agreed_words, ".3f")

# ---- cost ----

PHOTOS = number_column("photos", lambda row: row.photos, ",", key="photos")
PHOTO_BYTES = number_column("B/photo", lambda row: row.photo_bytes, ",.0f")
MINUTES = number_column("train min", lambda row: row.training.minutes if row.training else None, ".0f")
MEMORY = number_column("MB", lambda row: row.response.peak_mb if row.response else None, ",.0f", key="memory")
SPEED_UP = Column(
    "speed-up", lambda row: NONE if row.speed_up is None else f"{figure(row.speed_up)}x", key="speed-up"
)
QUERIES = number_column("queries", lambda row: row.queries, ",")
TOTAL = Column("total s", _total)
EVALUATION = (
    _evaluation("total s", "total"),
    *(_evaluation(part, part) for part in ("encode", "search", "rerank")),
)
QPS = number_column("QPS", lambda row: row.qps)
MEGABYTES = number_column("MB", lambda row: row.index.megabytes if row.index else None)
MEGABYTES_WITHOUT_IDS = number_column(
    "no ids", lambda row: row.index.megabytes_without_ids if row.index else None
)
ACCOUNTED = number_column("B/photo", lambda row: row.index.accounted if row.index else None, ".0f")
REAL_BYTES = number_column("real", lambda row: row.photo_bytes, ".0f")
