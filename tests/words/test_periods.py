from datetime import date

import pytest

from lexlip.words.periods import without_period

NOVEMBER = date(2026, 11, 30)  # a Monday


@pytest.mark.parametrize(
    ("text", "today", "rest", "first", "last"),
    [
        ("yesterday", NOVEMBER, "", "2026-11-29", "2026-11-29"),
        ("yesterday", date(2024, 3, 1), "", "2024-02-29", "2024-02-29"),
        ("two dogs last week", NOVEMBER, "two dogs", "2026-11-23", "2026-11-29"),
        ("this week", date(2026, 11, 29), "", "2026-11-23", "2026-11-29"),
        ("Anna in the last month", NOVEMBER, "Anna", "2026-10-01", "2026-10-31"),
        ("last month", date(2027, 1, 5), "", "2026-12-01", "2026-12-31"),
        ("this month", date(2026, 12, 5), "", "2026-12-01", "2026-12-31"),
        ("Last Year", NOVEMBER, "", "2025-01-01", "2025-12-31"),
        ("this year on the beach", NOVEMBER, "on the beach", "2026-01-01", "2026-12-31"),
        ("last summer", NOVEMBER, "", "2026-06-01", "2026-08-31"),
        ("last summer", date(2026, 7, 4), "", "2025-06-01", "2025-08-31"),
        ("last summer", date(2026, 2, 4), "", "2025-06-01", "2025-08-31"),
        ("this summer", date(2026, 2, 4), "", "2026-06-01", "2026-08-31"),
        ("last winter", NOVEMBER, "", "2025-12-01", "2026-02-28"),
        ("last winter", date(2027, 1, 9), "", "2025-12-01", "2026-02-28"),
        ("this winter", date(2027, 1, 9), "", "2026-12-01", "2027-02-28"),
        ("last fall", NOVEMBER, "", "2025-09-01", "2025-11-30"),
        ("a dog from the summer of 2019 in snow", NOVEMBER, "a dog in snow", "2019-06-01", "2019-08-31"),
        ("spring, 2019", NOVEMBER, "", "2019-03-01", "2019-05-31"),
        ('"last year" yesterday', NOVEMBER, '"last year"', "2026-11-29", "2026-11-29"),
    ],
)
def test_a_period(text: str, today: date, rest: str, first: str, last: str) -> None:
    found = without_period(text, today)
    assert found == (rest, (date.fromisoformat(first), date.fromisoformat(last)))


@pytest.mark.parametrize(
    "text",
    [
        *("a summer dress", "a waterfall", "the last one", "this is a year", "winter 2019", "last summers"),
        *('"last summer"', "“last summer” dog", "last year's cake", "summer 20199", "a-last year", "2019"),
        *("out in the surf today", "in the fall", "a spring in 2019", ""),
    ],
)
def test_other_words_stay(text: str) -> None:
    assert without_period(text, NOVEMBER) == (text, None)
