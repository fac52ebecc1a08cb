from datetime import UTC, datetime
from itertools import product

import numpy as np
import pytest

from lexlip.errors import DataError
from lexlip.retrieval.filters import NEAR, Filters, group_alike, words_of


def test_nothing_is_filtered() -> None:
    for filters in (Filters(), Filters("", "", "", " "), Filters(folder="/"), Filters(folder="./")):
        assert not filters


def test_conditions_are_texts() -> None:
    for name in ("after", "before", "folder", "caption", "near", "within", "album"):
        says = f"'{name}' is 2014, and not a text such as '2014': give one"
        with pytest.raises(DataError, match=f"^{says}$"):
            Filters(**{name: 2014})


def test_something_is() -> None:
    for name, value in (("after", "2014"), ("before", "2014-05"), ("folder", "a/"), ("caption", "a dog")):
        assert Filters(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("after", "2014-02-30", "'after' is '2014-02-30', and there is no such date"),
        ("before", "2014-13", "'before' is '2014-13', and there is no such date"),
        ("after", "0000", "and there is no such date"),
        ("after", "May 2014", "'after' is 'May 2014': give a date such as 2014, 2014-05 or 2014-05-03"),
        ("before", "2014-5", "give a date such as"),
        ("before", "2014-05-03T10", "give a date such as"),
        ("after", "２０１４", "give a date such as"),
        ("caption", "?!", "has no word in it: give words"),
    ],
)
def test_what_is_refused(name: str, value: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        Filters(**{name: value})


def test_dates_in_the_wrong_order() -> None:
    with pytest.raises(DataError, match="no photo is taken after 2015 and before 2014: swap the dates"):
        Filters(after="2015", before="2014")
    with pytest.raises(DataError, match="swap the dates"):
        Filters(after="2014-06", before="2014-05-31")
    Filters(after="2014-05-03", before="2014")
    Filters(after="2014", before="2014-05-03")


def test_words() -> None:
    assert words_of("A Dog's STRASSE, 2014!") == ["a", "dog", "s", "strasse", "2014"]
    assert words_of("Straße") == ["strasse"]
    assert words_of("cafe\u0301") == ["caf\u00e9"]
    assert words_of("कुत्ता snow_man ❤\ufe0f") == ["कुत्ता", "snow_man"]


def test_a_caption_of_too_many_words_is_refused() -> None:
    Filters(caption="word " * 100)
    with pytest.raises(DataError, match=r"^the caption to look for has 1,001 words: give at most 100$"):
        Filters(caption="word " * 1001)


def test_groups_are_as_a_plain_loop_has_them() -> None:
    generator = np.random.default_rng(0)
    by_id: dict[str, int] = {}
    for number in range(60):
        one = int(generator.integers(0, 8)) << 60  # few, and up to eight bits of noise
        for bit in generator.integers(0, 50, generator.integers(0, 9)).tolist():
            one ^= 1 << bit
        by_id[f"{number}.jpg"] = one
    groups: list[list[str]] = []
    for id in by_id:
        near = [group for group in groups if bin(by_id[group[0]] ^ by_id[id]).count("1") <= NEAR]
        if near:
            near[0].append(id)
        else:
            groups.append([id])
    assert group_alike([(id, id, one) for id, one in by_id.items()]) == groups
    assert 1 < len(groups) < 60


def test_photos_of_which_little_is_known() -> None:
    digests, prints = ["", "same", "", "same", "", ""], [None, None, 7, 7, None, 7]
    photos = list(zip("abcdef", digests, prints, strict=True))
    assert group_alike(photos) == [["a"], ["b", "d"], ["c", "f"], ["e"]]
    assert group_alike([]) == []


@pytest.mark.parametrize("period", ["2011-12-30", "2012", "2018-11", "2019-12", "2020-02", "1965"])
def test_times_of_files_are_those_of_dates(period: str) -> None:
    """Of seconds around midnights, months and years."""
    begin, end = Filters(after=period, before=period).written
    for edge, second in product((begin, end), (-3600, -1, 0, 1, 3600)):
        shown = datetime.fromtimestamp(edge + second, UTC).isoformat()
        assert (begin <= edge + second < end) == shown.startswith(period)


def test_times_at_the_ends_of_the_calendar() -> None:
    for first, last in (("0001", "9999"), ("0001-01-01", "9999-12-31"), ("0001-01", "9999-12")):
        begin, end = Filters(after=first, before=last).written
        assert -(2**63) <= begin * 10**9 < -(10**18)
        assert 10**18 < end * 10**9 < 2**63
