import math
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from lexlip.errors import ModelError
from lexlip.retrieval.first_stage import Results
from lexlip.search.hybrid import Hybrid, HybridStage, fuse, fuse_two, probability
from lexlip.search.stages.index_model import open_index
from tests.retrieval.plain_stage import PlainStage
from tests.search.indexes import Indexed, is_open
from tests.tiny import CAPTIONS

WEIGHT = 0.3
ALL = "two dogs play with a white cat on the boat near the beach"  # shares a word with every photo


@pytest.fixture(params=["rrf", "weighted"])
def hybrid(indexed: Indexed, request: pytest.FixtureRequest) -> Iterator[HybridStage]:
    how: Hybrid = request.param
    stage = HybridStage(open_index(indexed.words), open_index(indexed.dense), how, WEIGHT)
    with closing(stage):
        yield stage


def fused(hybrid: HybridStage, query: str) -> dict[str, float]:
    """The formula, photo by photo."""
    sums: dict[str, float] = {}
    for stage, weight in ((hybrid.first, WEIGHT), (hybrid.second, 1 - WEIGHT)):
        (ids,), (scores,) = stage.search([stage.encode(query)], 100)
        low, high = min(scores), max(scores)
        for rank, (id, score) in enumerate(zip(ids, scores, strict=True), 1):
            share = 1 / (60 + rank) if hybrid.how == "rrf" else weight * (score - low) / (high - low)
            sums[id] = sums.get(id, 0) + share
    return sums


def test_scores_are_those_of_the_formula(hybrid: HybridStage) -> None:
    queries = [hybrid.encode(caption) for caption in CAPTIONS]
    ids, scores = hybrid.search(queries, 4)
    for caption, found, points in zip(CAPTIONS, ids, scores, strict=True):
        expected = fused(hybrid, caption)
        assert list(points) == pytest.approx(sorted(expected.values(), reverse=True)[:4])
        assert list(points) == pytest.approx([expected[id] for id in found])


def test_words_and_terms_are_those_of_the_first(hybrid: HybridStage) -> None:
    for caption in CAPTIONS:
        query = hybrid.encode(caption)
        (ids,), _ = hybrid.search([query], 5)
        assert hybrid.terms(query) == hybrid.first.terms(query[0])
        assert hybrid.matches(query, ids) == hybrid.first.matches(query[0], ids)
        assert any(hybrid.matches(query, ids))
        assert hybrid.matches(query, [*ids, "only in the second"]) == [*hybrid.matches(query, ids), {}]
        assert hybrid.suggestions(query, [*ids, "only in the second"], 3) == hybrid.suggestions(query, ids, 3)
        assert hybrid.suggestions(query, ["only in the second"], 3) == []


class Ranked(PlainStage):
    """A stage that finds photos in a fixed order."""

    def __init__(self, ids: list[str]) -> None:
        self.ids = ids

    def search(self, queries: list[str], k: int, allowed: frozenset[str] | None = None) -> Results:
        there = [id for id in self.ids if allowed is None or id in allowed][:k]
        return [there for _ in queries], [1 - np.arange(len(there)) / 1000 for _ in queries]

    def allow(self, ids: list[str] | None, without: list[str], but: frozenset[str]) -> frozenset[str] | None:
        return None if ids is None else frozenset(ids)


@pytest.mark.parametrize("how", ["rrf", "weighted"])
def test_pages_are_as_deep_as_asked_and_do_not_depend_on_k(how: Hybrid) -> None:
    ids = [f"{number}" for number in range(700)]
    one: Any = Ranked(ids)
    two: Any = Ranked(list(np.random.default_rng(0).permutation(ids)))
    hybrid = HybridStage(one, two, how)
    (every,), (scores,) = hybrid.search([("", "")], 1000)
    assert sorted(every) == sorted(ids)
    assert (np.diff(scores) <= 0).all()
    for k in (1, 10, 100, 150, 699):
        (found,), (points,) = hybrid.search([("", "")], k)
        assert (found, points.tolist()) == (every[:k], scores[:k].tolist())
    first, _ = fuse_two(one.search([""], 100), two.search([""], 100), 100, how)
    assert every[:100] == first[0]


def test_only_allowed_photos_are_found(hybrid: HybridStage, indexed: Indexed) -> None:
    query = hybrid.encode(ALL)
    (every,), _ = hybrid.search([query], 10)
    (some,), _ = hybrid.search([query], 10, hybrid.allow(every[2:4]))
    assert set(some) == set(every[2:4])
    held = hybrid.first.holding(["dog"])
    (without,), _ = hybrid.search([query], 10, hybrid.allow(None, ["dog"]))
    assert set(without) == set(every) - held
    assert 0 < len(held) < len(every)


def test_what_it_says_about_itself_is_of_the_first(hybrid: HybridStage, indexed: Indexed) -> None:
    assert hybrid.index == indexed.words
    assert hybrid.metadata.kind == "impact"
    assert hybrid.unknown("a quokka") == ["quokka"]
    with pytest.raises(ModelError, match="a picture searches one index: leave out --also"):
        _ = hybrid.encoder


def test_both_are_refreshed_and_closed(indexed: Indexed, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = HybridStage(open_index(indexed.words), open_index(indexed.bm25))
    refreshed = []
    for name, one, newer in (("first", stage.first, True), ("second", stage.second, False)):
        monkeypatch.setattr(one, "refresh", lambda name=name, newer=newer: refreshed.append(name) or newer)
    assert stage.refresh()
    assert refreshed == ["first", "second"]
    stage.close()
    assert not is_open(indexed.words)
    assert not is_open(indexed.bm25)


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
