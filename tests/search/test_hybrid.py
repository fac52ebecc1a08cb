from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest

from lexlip.errors import ModelError
from lexlip.search import hybrid as module
from lexlip.search.fusion import Hybrid
from lexlip.search.hybrid import HybridStage
from lexlip.search.open_index import open_index
from tests.search.indexes import Indexed, is_open
from tests.tiny import CAPTIONS

WEIGHT = 0.3


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
    queries = [hybrid.encode(caption) for caption in CAPTIONS]
    ids, scores = hybrid.search(queries, 5)
    alone = hybrid.first.find([query for query, _ in queries], 6)
    for row, found in enumerate(hybrid.find(queries, 5)):
        assert found.ids == ids[row]
        np.testing.assert_allclose(found.scores, scores[row])
        assert found.terms == alone[row].terms
        words = dict(zip(alone[row].ids, alone[row].words, strict=True))
        assert found.words == [words.get(id, {}) for id in found.ids]
        assert any(found.words)


def test_each_index_gives_more_than_are_wanted(hybrid: HybridStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one of them finds late may be first of both."""
    asked = []
    for stage in (hybrid.first, hybrid.second):
        search = stage.search
        monkeypatch.setattr(stage, "search", lambda queries, k, of=search: asked.append(k) or of(queries, k))
    query = hybrid.encode("two dogs")
    hybrid.search([query], 2)
    hybrid.search([query], 500)
    assert asked == [module.DEPTH] * 2 + [500] * 2 == [100, 100, 500, 500]


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
