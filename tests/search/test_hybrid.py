from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from lexlip.errors import ModelError
from lexlip.retrieval.engine import Results
from lexlip.search.fusion import Hybrid, fuse_two
from lexlip.search.hybrid import HybridStage
from lexlip.search.open_index import open_index
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

    def allow(self, ids: list[str] | None, without: list[str]) -> frozenset[str] | None:
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
