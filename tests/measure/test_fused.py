from dataclasses import replace

import numpy as np
import pytest

from lexlip.measure.evaluate import Ranking, Report
from lexlip.measure.fused import fuse_reports
from lexlip.search.fusion import Hybrid, fuse_two

WAYS = ("t2i", "i2t")
RELEVANT = [{"b"}, {"c"}]


def report(found: list[list[str]], scores: list[list[float]]) -> Report:
    """One whose two directions are alike."""
    ranking = Ranking(["one", "two"], found, [np.array(row) for row in scores], RELEVANT)
    nothing = Report(3, 6, {}, {}, 20.0, 15.0, 0.25, [], 8.0)
    return nothing.with_rankings(dict.fromkeys(WAYS, ranking))


FIRST = report([["a", "b"], ["a", "c"]], [[2.0, 1.0], [3.0, 0.5]])
SECOND = report([["b", "c"], ["b", "a"]], [[0.9, 0.1], [0.8, 0.7]])


def test_both_directions_are_fused_and_measured_again() -> None:
    """b is in both answers to the first query; no first stage finds c first."""
    fused = fuse_reports(FIRST, SECOND)
    for way in WAYS:
        ranking = fused.rankings[way]
        assert (ranking.queries, ranking.relevant) == (["one", "two"], RELEVANT)
        assert ranking.found[0][0] == "b"
        assert sorted(ranking.found[0]) == ["a", "b", "c"]
        assert ranking.scores[0][0] == pytest.approx(1 / 62 + 1 / 61)
    assert fused.t2i == fused.i2t == {"R@1": 50, "R@5": 100, "R@10": 100}
    assert replace(fused, t2i=FIRST.t2i, i2t=FIRST.i2t) == FIRST  # all else is of the first


@pytest.mark.parametrize("how", ["rrf", "weighted"])
@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_answers_are_those_of_the_fusion(how: Hybrid, weight: float) -> None:
    one, two = FIRST.rankings["t2i"], SECOND.rankings["t2i"]
    ids, scores = fuse_two((one.found, one.scores), (two.found, two.scores), 2, how, weight)
    fused = fuse_reports(FIRST, SECOND, how, weight, depth=2)
    assert fused.rankings["t2i"].found == ids
    assert [len(row) for row in ids] == [2, 2]
    assert [list(row) for row in fused.rankings["t2i"].scores] == [list(row) for row in scores]
