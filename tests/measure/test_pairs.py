from dataclasses import replace

import numpy as np
import pytest
import torch

from lexlip.data import Scenes
from lexlip.encoders.image import to_pixels
from lexlip.measure.evaluate import Ranking, evaluate
from lexlip.measure.pairs import embed_source, evaluate_pairs, rerank
from lexlip.models.one_transformer import OneTransformer
from lexlip.search.engines import exact_engine
from lexlip.search.fusion import fuse
from tests.reference.ranking import naive_recall
from tests.tiny import tiny_model, tiny_stage

SCENES = Scenes(8, seed=0)
TEXTS = [caption for item in SCENES.items for caption in item.captions]
OWNERS = np.repeat(np.arange(8), 5)
IDS = [item.id for item in SCENES.items]
TEXT_IDS = [f"{id}#{number}" for id in IDS for number in range(5)]


@pytest.fixture(scope="module")
def model() -> OneTransformer:
    return tiny_stage("ce")


@pytest.fixture(scope="module")
def odds(model: OneTransformer) -> np.ndarray:
    """Log-odds of every caption with every photo, [40, 8], one at a time."""
    pixels = torch.stack([to_pixels(SCENES.image(row), model.config.image) for row in range(8)])
    embedded = model.embed_photos(pixels)
    one = np.zeros((1, 2), np.int64)
    rows = [[model.score_pairs(embedded[row, None], [text], one)[0] for row in range(8)] for text in TEXTS]
    return np.array(rows)


def test_all_pairs_both_ways(model: OneTransformer, odds: np.ndarray) -> None:
    report = evaluate_pairs(model, embed_source(model, SCENES, workers=0))
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
    embedded = embed_source(model, SCENES, workers=0, indices=[1, 6], captions=2)
    assert embedded.image_ids == [IDS[1], IDS[6]]
    assert embedded.texts == [TEXTS[5], TEXTS[6], TEXTS[30], TEXTS[31]]
    assert embedded.owners.tolist() == [0, 0, 1, 1]
    report = evaluate_pairs(model, embedded)
    assert (report.images, report.captions) == (2, 4)


@pytest.mark.parametrize("fusion", ["none", "add", "norm_add"])
@pytest.mark.parametrize("k", [1, 3, 100])
def test_reranking_reorders_the_first_k(model: OneTransformer, odds: np.ndarray, fusion, k: int) -> None:
    first = evaluate(tiny_model(), SCENES, exact_engine, workers=0)
    report = rerank(model, embed_source(model, SCENES, workers=0), first, k, fusion, 0.3)
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


def test_a_perfect_reranker_puts_what_was_found_first(model: OneTransformer, monkeypatch) -> None:
    """The direction: the most probable pair comes first."""
    queries, found = ["a#0", "b#0"], [["b", "a", "c"], ["c", "a"]]
    ranking = Ranking(queries, found, [np.array([3.0, 2, 1]), np.array([2.0, 1])], [{"a"}, {"b"}])
    embedded = embed_source(model, SCENES, workers=0)
    embedded = replace(embedded, image_ids=["a", "b", "c"], text_ids=queries, texts=["a", "b"])

    def know(photos: object, texts: list[str], pairs: np.ndarray) -> np.ndarray:
        return np.array([5.0 if texts[t] == "abc"[b] else -5.0 for t, b in pairs], np.float32)

    monkeypatch.setattr(model, "score_pairs", know)
    first = replace(
        evaluate(tiny_model(), SCENES, exact_engine, workers=0),
        rankings={"t2i": ranking, "i2t": Ranking(["a"], [["b#0", "a#0"]], [np.array([2.0, 1])], [{"a#0"}])},
    )
    report = rerank(model, embedded, first, 20)
    assert report.rankings["t2i"].found == [["a", "b", "c"], ["c", "a"]]
    assert report.rankings["i2t"].found == [["a#0", "b#0"]]
    assert report.t2i["R@1"] == 50
    assert report.i2t["R@1"] == 100
