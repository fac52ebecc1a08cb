"""What a run validates with, against `lexlip evaluate`'s measurement and brute force over pairs."""

import numpy as np
import pytest
import torch

from lexlip.data import Scenes
from lexlip.encoders.image import to_pixels
from lexlip.measure.evaluate import evaluate
from lexlip.search.engines.exact import exact_engine
from lexlip.training.validation import PAIRED_PHOTOS, validate
from tests.tiny import tiny_dense, tiny_model, tiny_stage


@pytest.mark.parametrize("words", [True, False])
def test_vectors_are_searched_by_brute_force(words: bool) -> None:
    model, val = tiny_model() if words else tiny_dense(), Scenes(20, seed=1)
    assert validate(model, val, 0) == evaluate(model, val, exact_engine, workers=0)


def test_a_cross_encoder_scores_some_photos_with_a_caption_each() -> None:
    model, val = tiny_stage("ce"), Scenes(PAIRED_PHOTOS + 50, seed=1)
    report = validate(model, val, 0)
    assert (report.images, report.captions) == (PAIRED_PHOTOS, PAIRED_PHOTOS)
    row_of = {item.id: row for row, item in enumerate(val.items)}
    rows = [row_of[query.split("#")[0]] for query in report.rankings["t2i"].queries]
    texts = [val.items[row].captions[0] for row in rows]
    pixels = [to_pixels(val.image(row, 32), model.config.image) for row in rows]
    photos = model.embed_photos(torch.stack(pixels))
    pairs = np.stack(np.divmod(np.arange(len(rows) ** 2), len(rows)), axis=1)
    scores = model.score_pairs(photos, texts, pairs).reshape(len(rows), len(rows))
    ranks = (scores > scores.diagonal()[:, None]).sum(axis=1)
    assert report.t2i["R@10"] == pytest.approx(100 * float((ranks < 10).mean()), abs=2)  # ties, rounding
