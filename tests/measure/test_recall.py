import numpy as np
import pytest

from lexlip.measure.recall import recall_at_k
from tests.reference.ranking import naive_recall


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
