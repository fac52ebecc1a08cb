import math

import numpy as np
from scipy.sparse import csr_matrix

from lexlip.search.stages.suggestions import suggest

HITS = csr_matrix([[0.5, 0.4, 0.1, 0.0, 0.6], [0.5, 0.2, 0.3, 0.0, 0.0], [0.5, 0.0, 0.5, 0.2, 0.0]])
FREQUENCIES = np.array([900, 10, 200, 3, 5])


def test_words_count_by_weight_and_rarity() -> None:
    """By the formula: mean weight times log((1 + N) / (1 + df)), of words in at least two hits."""
    value = {
        column: HITS[:, [column]].sum() / 3 * math.log(1001 / (1 + FREQUENCIES[column]))
        for column in range(3)
    }
    assert suggest(HITS, FREQUENCIES, 1000, [], 9) == sorted(value, key=lambda column: -value[column])


def test_words_of_the_query_are_left_out() -> None:
    assert suggest(HITS, FREQUENCIES, 1000, [1, 4], 9) == [2, 0]
    assert suggest(HITS, FREQUENCIES, 1000, [], 1) == [1]
    assert suggest(HITS, FREQUENCIES, 1000, [], 0) == []


def test_one_hit_or_none() -> None:
    assert suggest(HITS[2], FREQUENCIES, 1000, [0], 9) == [3, 2]
    assert suggest(HITS[:0], FREQUENCIES, 1000, [], 9) == []


def test_words_of_all_photos_tell_nothing() -> None:
    assert suggest(HITS[:, [0]], np.array([50]), 50, [], 9) == []
