"""Words that were meant, against a plain Damerau-Levenshtein distance."""

import random
from functools import cache

import pytest

from lexlip.queries.spelling import SWAP, edit_distances, nearest_words

COUNTS = {"dogs": 9, "dog": 50, "does": 90, "snow": 40, "show": 60, "bicycle": 3, "elephant": 2, "brick": 1}


def plain_distance(one: str, other: str) -> float:
    """Optimal string alignment, by its definition."""

    @cache
    def distance(i: int, j: int) -> float:
        if not i or not j:
            return i + j
        found = min(
            distance(i - 1, j) + 1,
            distance(i, j - 1) + 1,
            distance(i - 1, j - 1) + (one[i - 1] != other[j - 1]),
        )
        if i > 1 and j > 1 and one[i - 1] == other[j - 2] and one[i - 2] == other[j - 1]:
            found = min(found, distance(i - 2, j - 2) + SWAP)
        return found

    return distance(len(one), len(other))


def test_distances_are_those_of_the_plain_formula() -> None:
    rng = random.Random(0)
    words = ["".join(rng.choices("abcé", k=rng.randrange(7))) for _ in range(60)]
    for word in words:
        assert edit_distances(word, words) == pytest.approx([plain_distance(word, other) for other in words])


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("dgos", ["dogs"]),
        ("Snwo", ["snow"]),
        ("dig", ["dog"]),
        ("bycicle", ["bicycle"]),
        ("ellephent", ["elephant"]),
        ("sno", ["snow"]),
        ("shnow", ["show", "snow"]),
        ("dg", []),
        ("xyzzy", []),
        ("hund", []),
    ],
)
def test_letters_that_changed_places_are_first_then_the_most_frequent(typed: str, meant: list[str]) -> None:
    assert nearest_words(typed, COUNTS, 3) == meant


def test_no_more_than_wanted() -> None:
    assert nearest_words("shnow", COUNTS, 1) == ["show"]
    assert nearest_words("dog", {}, 3) == []
