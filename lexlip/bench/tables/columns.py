"""The columns that tables show: a heading, and what a row shows there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lexlip.bench.tables.row import Quoted, Row

NONE = "-"
UNKNOWN = "–"  # what a paper does not give
EXTRAPOLATED = "≈"  # before what is extrapolated
NAME = "name"  # the key of the column that names a paper's lines


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    heading: str
    cell: Callable[[Row], str]  # what a row shows there
    shown: Callable[[list[Row]], bool] = lambda rows: True  # whether a table with these rows has the column
    is_text: bool = False  # aligned to the left
    key: str = ""  # of its figures in lines of the papers (`Quoted.figures`)
    form: str = ""  # a format of these; "": as the paper prints them

    def quoted(self, line: Quoted) -> str:
        """Return what a paper's line shows there."""
        if self.key == NAME:
            return str(line)
        value = line.figures.get(self.key, UNKNOWN)
        return value if isinstance(value, str) else f"{value:{self.form or ','}}"


def figure(number: float | None) -> str:
    """Return three digits, or all before the decimal point."""
    if number is None:
        return NONE
    return f"{number:,.0f}" if number >= 99.95 else f"{number:#.3g}" if number else "0"


def number_column(
    heading: str,
    value: Callable[[Row], float | None],
    form: str = "",
    key: str = "",
    extrapolated: Callable[[Row], bool] = lambda row: False,
) -> Column:
    """Return a column of numbers in a format, or as `figure` writes them; `key` is that of a paper's."""

    def shown(number: float) -> str:
        return f"{number:{form}}" if form else figure(number)

    def cell(row: Row) -> str:
        numbers = [number for run in row.runs or [row] if (number := value(run)) is not None]
        if not numbers:
            return NONE
        if row.runs:
            from statistics import fmean, stdev  # not needed to list the tables

            return f"{shown(fmean(numbers))} ± {shown(stdev(numbers))}" if len(numbers) > 1 else NONE
        return EXTRAPOLATED * extrapolated(row) + shown(numbers[0])

    return Column(heading, cell, key=key, form=form)


def seconds_column(heading: str, stage: str, unit: float = 1) -> Column:
    """Return a column of a figure of `Response.to_dict`, in seconds; `unit` is 1000 for milliseconds."""
    return number_column(
        heading,
        lambda row: None if row.response is None else unit * row.response.to_dict()[stage],
        key=stage,
        extrapolated=lambda row: stage != "encode" and _has_scored_some(row),
    )


def _has_scored_some(row: Row) -> bool:
    return row.response is not None and row.response.scored is not None


def _label(
    heading: str, field: str, shown: Callable[[list[Row]], bool] = lambda rows: True, key: str = ""
) -> Column:
    return Column(heading, lambda row: getattr(row, field) or NONE, shown, is_text=True, key=key)


def _count(heading: str, field: str, least: int) -> Column:
    """Return a column of a count, for tables with a row that has so many."""

    def cell(row: Row) -> str:
        return str(getattr(row, field) or NONE)

    return Column(heading, cell, lambda rows: any((getattr(row, field) or 0) >= least for row in rows))


# ---- what a row is ----

MODEL = _label("model", "model", key=NAME)
SYSTEM = _label("system", "model", key=NAME)
METHOD = _label("method", "method", lambda rows: any(row.method for row in rows))
RERANKER = _label("reranked by", "reranker", lambda rows: any(row.reranker for row in rows))
FUSION = _label("fusion", "fusion", lambda rows: len({row.fusion for row in rows if row.fusion}) > 1)
DOCUMENTS = _label("documents", "documents")
K = _count("k", "k", 1)
LABELS = (MODEL, METHOD, RERANKER, FUSION, DOCUMENTS, K)

FOLDS = _count("folds", "folds", 2)
COLLECTION = _label("photos of", "collection")
TRAINED_ON = _label("trained on", "trained_on")

# ---- quality ----


def _recall(way: str, k: int, heading: str) -> Column:
    return number_column(
        heading, lambda row: (getattr(row, way) or {}).get(f"R@{k}"), ".1f", key=f"{way} R@{k}"
    )


def recall_columns(cutoffs: Sequence[int]) -> tuple[Column, ...]:
    """Return the columns of recalls at these numbers of hits, of both directions."""
    return tuple(
        _recall(way, k, f"{way.upper()} R@{k}" if k == cutoffs[0] else f"R@{k}")
        for way in ("t2i", "i2t")
        for k in cutoffs
    )


RECALLS = recall_columns((1, 5, 10))
MEAN = number_column("mean", lambda row: row.report.mean_recall if row.report else None, ".1f", key="mean")
AR = number_column("AR", lambda row: row.average_recall, ".1f", key="AR")


def _language(language: str) -> Column:
    def value(row: Row) -> float | None:
        report = (row.languages or {}).get(language)
        return None if report is None else report.mean_recall

    return number_column(language, value, ".1f", key=language)


LANGUAGES = tuple(map(_language, ("en", "de", "fr", "cs")))


def average_column(english: bool = True) -> Column:
    """Return the column of the mean over languages, with English or without."""

    def value(row: Row) -> float | None:
        reports = (row.languages or {}).items()
        means = [report.mean_recall for language, report in reports if english or language != "en"]
        return sum(means) / len(means) if means else None

    return number_column("average", value, ".1f", key="average")


def _agreed_words(row: Row) -> float | None:
    short = row.report.short_queries if row.report else None
    agreed = short["agreed_words"] if short else None
    return agreed["P@5"] if agreed else None


WORDS_KEPT = number_column("terms", lambda row: row.report.terms_kept if row.report else None, ".1f")
WORDS_AT_10 = number_column("words@10", lambda row: row.report.words_at_10 if row.report else None, ".3f")
AGREED_WORDS = number_column("words P@5", _agreed_words, ".3f")

# ---- cost ----


def _evaluation(heading: str, part: str, key: str) -> Column:
    return number_column(
        heading,
        lambda row: getattr(row.evaluation, part, None),
        key=key,
        extrapolated=lambda row: getattr(row.evaluation, "extrapolated", None) is not None,
    )


PHOTOS = number_column("photos", lambda row: row.photos, ",", key="photos")
PHOTO_BYTES = number_column("B/photo", lambda row: row.photo_bytes, ",.0f")
MINUTES = number_column("train min", lambda row: row.training.minutes if row.training else None, ".0f")
MEMORY = number_column("MB", lambda row: row.response.peak_mb if row.response else None, ",.0f", key="memory")
SPEED_UP = Column(
    "speed-up", lambda row: NONE if row.speed_up is None else f"{figure(row.speed_up)}x", key="speed-up"
)
QUERIES = number_column("queries", lambda row: row.queries, ",")
TOTAL = number_column("total s", lambda row: row.total_seconds, extrapolated=_has_scored_some)
EVALUATION = (
    _evaluation("total s", "total", key="evaluation"),
    *(_evaluation(part, part, key=part) for part in ("encode", "search", "rerank")),
)
QPS = number_column("QPS", lambda row: row.qps)
MEGABYTES = number_column("MB", lambda row: row.index.megabytes if row.index else None)
MEGABYTES_WITHOUT_IDS = number_column(
    "no ids", lambda row: row.index.megabytes_without_ids if row.index else None
)
ACCOUNTED = number_column("B/photo", lambda row: row.index.accounted if row.index else None, ".0f")
REAL_BYTES = number_column("real", lambda row: row.photo_bytes, ".0f")
