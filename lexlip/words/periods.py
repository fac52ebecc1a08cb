"""Words for a time that depends on today, or of a season: "yesterday", "last summer", "summer 2019"."""

from __future__ import annotations

import re
from datetime import date, timedelta

# Their first months, in the north.
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_PERIOD = re.compile(
    r"(?:(?<![\w'’-])(?:taken|from|in|of|during)\s+)*(?:(?<![\w'’-])the\s+)?(?<![\w'’-])"
    r"(?:(?P<yesterday>yesterday)"
    rf"|(?P<which>last|this)\s+(?P<span>week|month|year|{'|'.join(_SEASONS)})"
    r"|(?P<season>spring|summer|autumn|fall)(?:\s+of|,)?\s+(?P<year>(?:19|20)\d\d))(?!['’]?\w|-\w)",
    re.IGNORECASE,
)


def without_period(text: str, today: date | None = None) -> tuple[str, tuple[date, date] | None]:
    """Return a text without the first words for a time in it, and its first and last day; None: it has none.

    A week begins on Monday. "Last summer" is the newest one that is over, and "this summer" that of this
    year; a winter ends in February of the next year. What is in quotes is text. Of the captions of COCO none
    has such words, but some have "today", which is not read.
    """
    today = today or date.today()
    for found in _PERIOD.finditer(text):
        if len(re.findall(r'["“”]', text[: found.start()])) % 2 == 0:
            rest = f"{text[: found.start()]} {text[found.end() :]}"
            return " ".join(rest.split()), _days(found, today)
    return text, None


def _days(found: re.Match[str], today: date) -> tuple[date, date]:
    if found["yesterday"]:
        return (today - timedelta(1),) * 2
    span, last = (found["season"] or found["span"]).lower(), (found["which"] or "").lower() == "last"
    if span == "week":
        monday = today - timedelta(today.weekday() + 7 * last)
        return monday, monday + timedelta(6)
    if span == "month":
        return _months(today.year, today.month - last, 1)
    if span == "year":
        return _months(today.year - last, 1, 12)
    if found["year"]:
        return _months(int(found["year"]), _SEASONS[span], 3)
    in_winter = span == "winter" and today.month < 3  # it began in the year before
    first, end = _months(today.year - in_winter, _SEASONS[span], 3)
    return _months(first.year - 1, first.month, 3) if last and end >= today else (first, end)


def _months(year: int, month: int, number: int) -> tuple[date, date]:
    """Return the first and the last day of some months, of which the first one may be 0: December before."""
    first, end = 12 * year + month - 1, 12 * year + month - 1 + number
    return date(first // 12, first % 12 + 1, 1), date(end // 12, end % 12 + 1, 1) - timedelta(1)
