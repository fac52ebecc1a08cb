"""Comparisons of runs, beside the figures and the tests of ranx, ir_measures, trec_eval and scipy."""

import random
import warnings
from itertools import product
from math import log2

import ir_measures
import numpy as np
import pytest
from scipy import stats

from lexlip.errors import ConfigError, DataError
from lexlip.measure.comparison import MEASURES, compare, hits

Run = dict[str, dict[str, float]]
Qrels = dict[str, dict[str, int]]

OF_RANX = {
    **{f"Success@{k}": f"hit_rate@{k}" for k in (1, 5, 10)},
    **{f"R@{k}": f"recall@{k}" for k in (1, 5, 10)},
    **{"RR": "mrr", "RR@10": "mrr@10", "nDCG@10": "ndcg@10", "P@5": "precision@5", "AP": "map"},
}


def drawn(seed: int, help: float, qrels: Qrels, without: int = 0) -> Run:
    """A run that ranks by chance, the relevant documents somewhat higher; it lacks some queries."""
    chance = random.Random(seed)
    documents = [f"photo{number}" for number in range(60)]
    return {
        query: {
            id: chance.random() + help * (id in relevant)
            for id in dict.fromkeys([*chance.sample(documents, 40), *relevant])
        }
        for query, relevant in list(qrels.items())[without:]
    }


@pytest.fixture(scope="module")
def qrels() -> Qrels:
    chance = random.Random(0)
    return {
        f"q{number}": {f"photo{chance.randrange(60)}": 1 for _ in range(1 + number % 4)}
        for number in range(200)
    }


def test_ranx_and_ir_measures_find_the_same_means(qrels: Qrels) -> None:
    ranx = pytest.importorskip("ranx", reason="ranx is not installed")
    first, second = drawn(1, 0.2, qrels, without=7), drawn(2, 0.4, qrels)
    found = compare(first, second, qrels, [*OF_RANX])
    assert (found.queries, found.missing) == (200, (7, 0))
    assert list(found.differences) == [*OF_RANX]
    for name, theirs in OF_RANX.items():
        row = found.differences[name]
        for run, mean in ((first, row.first), (second, row.second)):
            measure = eval(name, {**vars(ir_measures)})  # its parser ends on Python 3.14
            assert mean == pytest.approx(ir_measures.calc_aggregate([measure], qrels, run)[measure])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # numba's of ranx's own code
                asked = ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), theirs, make_comparable=True)
            assert mean == pytest.approx(asked)


def test_the_test_is_that_of_scipy_and_ranx(qrels: Qrels) -> None:
    """By reciprocal ranks that are computed here."""
    ranx = pytest.importorskip("ranx", reason="ranx is not installed")
    first, second = drawn(1, 0.2, qrels), drawn(2, 0.25, qrels)
    values = [
        np.array(
            [
                1 / min(rank for rank, id in enumerate(_by_score(run[query]), 1) if id in relevant)
                for query, relevant in qrels.items()
            ]
        )
        for run in (first, second)
    ]
    row = compare(first, second, qrels, ["RR"]).differences["RR"]
    theirs = stats.ttest_1samp(values[1] - values[0], 0)
    assert row.p == pytest.approx(theirs.pvalue)
    assert (row.low, row.high) == pytest.approx(theirs.confidence_interval(0.95))
    assert row.difference == pytest.approx(values[1].mean() - values[0].mean())
    signs = np.sign(values[1] - values[0])
    assert (row.won, row.lost, row.tied) == ((signs > 0).sum(), (signs < 0).sum(), (signs == 0).sum())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = ranx.compare(
            ranx.Qrels(qrels), [ranx.Run(first, "a"), ranx.Run(second, "b")], ["mrr"], stat_test="student"
        )
    assert report.comparisons["a", "b"]["mrr"]["p_value"] == pytest.approx(row.p)


def test_randomization_is_the_share_of_all_signs() -> None:
    """Twelve queries: all 4,096 signs are tried, here and there."""
    chance = np.random.default_rng(3)
    qrels = {f"q{number}": {"right": 1} for number in range(12)}
    ranks = chance.integers(1, 9, (2, 12))
    runs = [
        {
            query: {"right": -float(rank), **{f"other{n}": -float(n) for n in range(1, 9) if n != rank}}
            for query, rank in zip(qrels, of_run, strict=True)
        }
        for of_run in ranks
    ]
    differences = 1 / ranks[1] - 1 / ranks[0]
    means = [abs((np.array(signs) * differences).mean()) for signs in product((1, -1), repeat=12)]
    share = np.mean(np.array(means) >= abs(differences.mean()) - 1e-12)
    found = compare(*runs, qrels, ["RR"], "randomization")
    assert found.differences["RR"].p == pytest.approx(share)
    assert found.test == "two-sided paired randomization test, 9,999 draws"


def test_randomization_is_about_as_sure_as_the_t_test(qrels: Qrels) -> None:
    first, second = drawn(1, 0.2, qrels), drawn(2, 0.25, qrels)
    t_test, drawn_signs = (
        compare(first, second, qrels, ["nDCG@10"], test).differences["nDCG@10"].p
        for test in ("t-test", "randomization")
    )
    assert t_test is not None
    assert 0.01 < t_test < 0.99
    assert drawn_signs == pytest.approx(t_test, abs=0.03)


def test_queries_that_differ_most(qrels: Qrels) -> None:
    first, second = drawn(1, 0.2, qrels, without=3), drawn(2, 0.3, qrels)
    found = compare(first, second, qrels, ["RR", "nDCG@10"])

    def ndcg(run: Run, query: str) -> float:
        right = qrels[query]
        gains = [
            1 / log2(1 + rank) for rank, id in enumerate(_by_score(run.get(query, {}))[:10], 1) if id in right
        ]
        return sum(gains) / sum(1 / log2(1 + rank) for rank in range(1, 1 + len(right)))

    differences = {query: abs(ndcg(second, query) - ndcg(first, query)) for query in qrels}
    largest = sorted(differences.values(), reverse=True)[:10]
    assert [differences[query.id] for query in found.most_different] == pytest.approx(largest)
    for query in found.most_different:
        assert (query.first, query.second) == pytest.approx((ndcg(first, query.id), ndcg(second, query.id)))
        for rank, run in ((query.first_rank, first), (query.second_rank, second)):
            ranked = _by_score(run.get(query.id, {}))
            assert rank == next((n for n, id in enumerate(ranked, 1) if id in qrels[query.id]), None)


def test_a_run_is_no_better_than_itself(qrels: Qrels) -> None:
    run = drawn(1, 0.2, qrels)
    for test, p in (("t-test", None), ("randomization", 1.0)):
        found = compare(run, run, qrels, test=test)
        assert list(found.differences) == list(MEASURES)
        assert found.most_different == []
        for row in found.differences.values():
            assert (row.difference, row.p, row.tied) == (0, p, 200)


def test_one_query_tells_nothing_of_others() -> None:
    row = compare({"q": {"b": 1.0}}, {"q": {"a": 1.0}}, {"q": {"a": 1}}, ["MRR"]).differences["RR"]
    assert (row.first, row.second, row.low, row.high, row.p, row.won) == (0, 1, None, None, None, 1)


def test_equal_scores_are_ordered_as_trec_eval_does(qrels: Qrels) -> None:
    tied = {query: {f"photo{number}": float(number % 3) for number in range(60)} for query in qrels}
    assert hits(tied, "q0")[:3] == ["photo8", "photo59", "photo56"]
    found = compare(tied, tied, qrels, ["RR", "RR@5", "Success@5"]).differences
    theirs = ir_measures.calc_aggregate([ir_measures.RR, ir_measures.Success @ 5], qrels, tied)
    assert found["RR"].first == pytest.approx(theirs[ir_measures.RR])
    assert found["Success@5"].first == pytest.approx(theirs[ir_measures.Success @ 5])
    assert 0 < found["RR@5"].first < found["RR"].first


def test_runs_over_other_queries() -> None:
    with pytest.raises(DataError, match="no query of the qrels is in both runs"):
        compare({"q": {"a": 1.0}}, {"p": {"a": 1.0}}, {"q": {"a": 1}, "p": {"a": 1}})


@pytest.mark.parametrize("name", ["R@0", "recall@5", "R", "R@5x", "nDCG@1e3", "RR@9999999", "", "ERR@5", "é"])
def test_measures_that_are_not_known(name: str) -> None:
    with pytest.raises(ConfigError, match=r"there is no measure .* here: give one as R@5"):
        compare({"q": {"a": 1.0}}, {"q": {"a": 1.0}}, {"q": {"a": 1}}, [name])


def _by_score(found: dict[str, float]) -> list[str]:
    return sorted(found, key=lambda id: -found[id])
