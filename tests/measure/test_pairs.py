from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from lexlip.data import Scenes
from lexlip.encoders.image import to_pixels
from lexlip.errors import DataError
from lexlip.measure.evaluate import evaluate
from lexlip.measure.pairs import evaluate_pairs, rerank
from lexlip.measure.pool import PoolTokens, embed_pool
from lexlip.measure.recalls import Ranking, Report
from lexlip.models.one_transformer import OneTransformer
from lexlip.search.engines.exact import exact_engine
from lexlip.search.hybrid import fuse
from tests.reference.ranking import naive_recall
from tests.tiny import tiny_model, tiny_stage

SCENES = Scenes(8, seed=0)
TEXTS = [caption for item in SCENES.items for caption in item.captions]
OWNERS = np.repeat(np.arange(8), 5)
IDS = [item.id for item in SCENES.items]
TEXT_IDS = [f"{id}#{number}" for id in IDS for number in range(5)]


@pytest.fixture(scope="module")
def model() -> OneTransformer:
    model: Any = tiny_stage("ce")
    return model


@pytest.fixture(scope="module")
def odds(model: OneTransformer) -> np.ndarray:
    """Log-odds of every caption with every photo, [40, 8], one at a time."""
    pixels = torch.stack([to_pixels(SCENES.image(row), model.config.image) for row in range(8)])
    embedded = model.embed_photos(pixels)
    one = np.zeros((1, 2), np.int64)
    rows = [[model.score_pairs(embedded[row, None], [text], one)[0] for row in range(8)] for text in TEXTS]
    return np.array(rows)


@pytest.fixture(scope="module")
def tokens(model: OneTransformer) -> PoolTokens:
    return embed_pool(model, SCENES, workers=0)


@pytest.fixture(scope="module")
def first() -> Report:
    """What a first stage finds."""
    return evaluate(tiny_model(), SCENES, exact_engine, workers=0)


def test_all_pairs_both_ways(model: OneTransformer, tokens: PoolTokens, odds: np.ndarray) -> None:
    report = evaluate_pairs(model, tokens)
    assert (report.images, report.captions, report.terms_image, report.words_at_10) == (8, 40, None, None)
    t2i = [[IDS[row] for row in np.argsort(-scores, kind="stable")] for scores in odds]
    i2t = [[TEXT_IDS[row] for row in np.argsort(-scores, kind="stable")] for scores in odds.T]
    for k in (1, 5, 10):
        assert report.t2i[f"R@{k}"] == naive_recall(t2i, [{IDS[owner]} for owner in OWNERS], k)
        right = [{TEXT_IDS[row] for row in np.flatnonzero(image == OWNERS)} for image in range(8)]
        assert report.i2t[f"R@{k}"] == naive_recall(i2t, right, k)
    for ranking in report.rankings.values():
        assert all((np.diff(scores) <= 0).all() for scores in ranking.scores)  # best first


def test_some_photos_with_some_captions(model: OneTransformer) -> None:
    embedded = embed_pool(model, SCENES, workers=0, indices=[1, 6], captions=2)
    assert embedded.pool.image_ids == [IDS[1], IDS[6]]
    assert embedded.pool.texts == [TEXTS[5], TEXTS[6], TEXTS[30], TEXTS[31]]
    assert embedded.pool.owners.tolist() == [0, 0, 1, 1]
    report = evaluate_pairs(model, embedded)
    assert (report.images, report.captions) == (2, 4)


@pytest.mark.parametrize("fusion", ["none", "add", "norm_add"])
@pytest.mark.parametrize("k", [1, 3, 100])
def test_reranking_reorders_the_first_k(
    model: OneTransformer, tokens: PoolTokens, first: Report, odds: np.ndarray, fusion: Any, k: int
) -> None:
    report = rerank(model, tokens, first, k, fusion, 0.3)
    for way, row_of_query, row_of_document in (
        ("t2i", TEXT_IDS.index, IDS.index),
        ("i2t", IDS.index, TEXT_IDS.index),
    ):
        table = odds if way == "t2i" else odds.T
        before, after = first.rankings[way], report.rankings[way]
        for query, was, was_scores, found, scores in zip(
            before.queries, before.found, before.scores, after.found, after.scores, strict=True
        ):
            candidates = was[:k]
            their_odds = np.array([table[row_of_query(query), row_of_document(id)] for id in candidates])
            fused = fuse(was_scores[: len(candidates)], their_odds, fusion, 0.3)
            assert found[: len(candidates)] == [candidates[row] for row in np.argsort(-fused, kind="stable")]
            assert found[len(candidates) :] == was[k:]  # those behind stay
            assert (np.diff(scores) <= 0).all()
        for n in (1, 5, 10):
            recalls = report.t2i if way == "t2i" else report.i2t
            assert recalls[f"R@{n}"] == naive_recall(after.found, after.relevant, n)
    if k == 1 and fusion == "none":
        assert report.t2i == first.t2i


def test_a_perfect_reranker_puts_what_was_found_first(
    model: OneTransformer, tokens: PoolTokens, first: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The direction: the most probable pair comes first."""
    queries, found = ["a#0", "b#0"], [["b", "a", "c"], ["c", "a"]]
    ranking = Ranking(queries, found, [np.array([3.0, 2, 1]), np.array([2.0, 1])], [{"a"}, {"b"}])
    pool = replace(tokens.pool, image_ids=["a", "b", "c"], text_ids=queries, texts=["a", "b"])

    def know(photos: object, texts: list[str], pairs: np.ndarray) -> np.ndarray:
        return np.array([5.0 if texts[t] == "abc"[b] else -5.0 for t, b in pairs], np.float32)

    monkeypatch.setattr(model, "score_pairs", know)
    other_way = Ranking(["a"], [["b#0", "a#0"]], [np.array([2.0, 1])], [{"a#0"}])
    first = replace(first, rankings={"t2i": ranking, "i2t": other_way})
    report = rerank(model, replace(tokens, pool=pool), first, 20)
    assert report.rankings["t2i"].found == [["a", "b", "c"], ["c", "a"]]
    assert report.rankings["i2t"].found == [["a#0", "b#0"]]
    assert report.t2i["R@1"] == 50
    assert report.i2t["R@1"] == 100


def test_what_the_reranker_does_not_have_stays_behind(
    model: OneTransformer, first: Report, odds: np.ndarray
) -> None:
    """Photos that it cannot read, in their order, with scores that go on falling."""
    tokens = embed_pool(model, SCENES, workers=0, indices=range(5))
    report = rerank(model, tokens, first, 8)
    known = set(IDS[:5])
    for row, (was, found, scores) in enumerate(
        zip(
            first.rankings["t2i"].found,
            report.rankings["t2i"].found,
            report.rankings["t2i"].scores,
            strict=True,
        )
    ):
        if TEXT_IDS[row].rpartition("#")[0] not in known:  # the caption is unknown too
            assert found == was
            continue
        readable = [id for id in was if id in known]
        assert found[: len(readable)] == sorted(readable, key=lambda id: -odds[row, IDS.index(id)])
        assert found[len(readable) :] == [id for id in was if id not in known]
        assert (np.diff(scores) <= 0).all()


def test_there_must_be_captions(model: OneTransformer) -> None:
    tokens = embed_pool(model, SCENES, workers=0, captions=0)
    with pytest.raises(DataError, match="there is no photo with captions to evaluate on"):
        evaluate_pairs(model, tokens)
