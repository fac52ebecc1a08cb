import math

import numpy as np
import pytest

from lexlip.search.fusion import fuse, fuse_two, probability

FIRST, ODDS = [0.9, 0.5, 0.1], [-1.0, 2.0, 0.5]
PROBABILITY = [1 / (1 + math.exp(-x)) for x in ODDS]


def stretched(values: list[float]) -> list[float]:
    return [(value - min(values)) / (max(values) - min(values)) for value in values]


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_fusions_are_their_formulas(weight: float) -> None:
    first, odds = np.array(FIRST), np.array(ODDS)
    assert fuse(first, odds).tolist() == ODDS  # in the order of their probabilities
    added = [weight * e + (1 - weight) * c for e, c in zip(FIRST, PROBABILITY, strict=True)]
    assert fuse(first, odds, "add", weight).tolist() == pytest.approx(added)
    pairs = zip(stretched(FIRST), stretched(PROBABILITY), strict=True)
    normed = [weight * e + (1 - weight) * c for e, c in pairs]
    assert fuse(first, odds, "norm_add", weight).tolist() == pytest.approx(normed)


def test_candidates_that_are_alike_or_none() -> None:
    same = fuse(np.array([0.5, 0.5]), np.array([1.0, 2.0]), "norm_add", 0.5)
    assert same.tolist() == [0.5, 1.0]
    for fusion in ("none", "add", "norm_add"):
        assert len(fuse(np.empty(0), np.empty(0), fusion)) == 0


def test_probabilities_of_log_odds() -> None:
    assert probability(np.array(ODDS)).tolist() == pytest.approx(PROBABILITY)


SPARSE = ([["a", "b", "c"], []], [np.array([3.0, 2.0, 1.0]), np.array([])])
DENSE = ([["d", "b"], ["a"]], [np.array([0.9, 0.8]), np.array([0.7])])


def test_reciprocal_rank_fusion() -> None:
    ids, scores = fuse_two(SPARSE, DENSE, 3)
    assert ids == [["b", "a", "d"], ["a"]]
    assert scores[0].tolist() == pytest.approx([1 / 62 + 1 / 62, 1 / 61, 1 / 61])
    assert scores[1].tolist() == pytest.approx([1 / 61])


def test_weighted_fusion_of_stretched_scores() -> None:
    ids, scores = fuse_two(SPARSE, DENSE, 10, "weighted", 0.7)
    assert scores[1].tolist() == pytest.approx([0.3])  # the only one is found, which is more than not
    assert ids == [["a", "b", "d", "c"], ["a"]]
    assert scores[0].tolist() == pytest.approx([0.7, 0.35, 0.3, 0.0])
    assert all((np.diff(row) <= 0).all() for row in scores)
