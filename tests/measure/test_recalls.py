from dataclasses import replace

import numpy as np
import pytest

from lexlip.measure.recalls import Ranking, Report, recall_at_k
from lexlip.search.hybrid import Hybrid, fuse_two
from tests.reference.ranking import naive_recall

WAYS = ("t2i", "i2t")
RELEVANT = [{"b"}, {"c"}]


def test_recall_by_hand() -> None:
    results = [["a", "b", "c"], ["c", "b"], [], ["x"]]
    relevant = [{"b"}, {"c", "z"}, {"a"}, set()]
    assert recall_at_k(results, relevant, ks=(1, 2, 3)) == {"R@1": 25.0, "R@2": 50.0, "R@3": 50.0}
    assert recall_at_k([], []) == {"R@1": 0.0, "R@5": 0.0, "R@10": 0.0}


def test_recall_against_a_loop() -> None:
    rng = np.random.default_rng(0)
    names = [f"{i}" for i in range(30)]
    results = [list(rng.permutation(names)[: rng.integers(0, 12)]) for _ in range(200)]
    relevant = [set(rng.choice(names, rng.integers(1, 4))) for _ in range(200)]
    found = recall_at_k(results, relevant)
    assert found == {f"R@{k}": pytest.approx(naive_recall(results, relevant, k)) for k in (1, 5, 10)}


def test_as_many_answers_as_questions() -> None:
    with pytest.raises(ValueError, match="argument 2"):
        recall_at_k([["a"]], [{"a"}, {"b"}])


def report(found: list[list[str]], scores: list[list[float]]) -> Report:
    """One whose two directions are alike."""
    ranking = Ranking(["one", "two"], found, [np.array(row) for row in scores], RELEVANT)
    nothing = Report(3, 6, {}, {}, 20.0, 15.0, 0.25, [], 8.0)
    return nothing.with_rankings(dict.fromkeys(WAYS, ranking))


FIRST = report([["a", "b"], ["a", "c"]], [[2.0, 1.0], [3.0, 0.5]])
SECOND = report([["b", "c"], ["b", "a"]], [[0.9, 0.1], [0.8, 0.7]])


def test_both_directions_are_fused_and_measured_again() -> None:
    """b is in both answers to the first query; no first stage finds c first."""
    fused = FIRST.fused_with(SECOND)
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
    fused = FIRST.fused_with(SECOND, how, weight, depth=2)
    assert fused.rankings["t2i"].found == ids
    assert [len(row) for row in ids] == [2, 2]
    assert [list(row) for row in fused.rankings["t2i"].scores] == [list(row) for row in scores]
