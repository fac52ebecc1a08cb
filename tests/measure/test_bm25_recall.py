from contextlib import ExitStack

import numpy as np
import pytest

from lexlip.data import Scenes
from lexlip.errors import DataError
from lexlip.measure.bm25_recall import draw, evaluate_bm25
from lexlip.measure.pool import CaptionPool, encode_pool
from lexlip.bench.tables.systems_bm25 import bm25
from lexlip.bench.tables.systems import Settings
from tests.measure.pools import make_pool
from tests.tiny import tiny_model

SCENES = Scenes(30, seed=1)


@pytest.mark.parametrize("seed", [0, 1])
def test_recalls_are_those_of_table_2(seed: int) -> None:
    with ExitStack() as stack:
        pool = encode_pool(tiny_model(), SCENES, [], workers=0)
        system = bm25(stack, pool, Settings(seed=seed))
    report = evaluate_bm25(SCENES, seed)
    assert (report.t2i, report.i2t) == (system.t2i, system.i2t)
    assert (report.images, report.captions) == (system.items, 4 * 30) == (30, 120)


def test_what_is_drawn() -> None:
    pool = make_pool()
    t2i, i2t = draw(pool, np.random.default_rng(0))
    text_of = dict(zip(pool.text_ids, pool.texts, strict=True))
    owner_of = {id: pool.image_ids[owner] for id, owner in zip(pool.text_ids, pool.owners, strict=True)}
    assert len(t2i.ids) == len(set(t2i.ids)) == 20  # photos with captions
    for id, document in zip(t2i.ids, t2i.documents, strict=True):
        assert document in {text for name, text in text_of.items() if owner_of[name] == id}
    assert t2i.queries == [text_of[id] for id in t2i.query_ids]
    assert t2i.relevant == [{owner_of[id]} for id in t2i.query_ids]
    assert len(t2i.queries) == 10 * 2  # of those that ask
    assert i2t.documents == [text_of[id] for id in i2t.ids]
    assert len(i2t.ids) == 20 * 2
    assert i2t.query_ids == [f"{photo}.jpg" for photo in range(10)]
    document_of = dict(zip(t2i.ids, t2i.documents, strict=True))
    assert i2t.queries == [document_of[id] for id in i2t.query_ids]
    for id, right in zip(i2t.query_ids, i2t.relevant, strict=True):
        assert right == {name for name in i2t.ids if owner_of[name] == id}


def test_rankings() -> None:
    report = evaluate_bm25(SCENES, depth=25)
    t2i = report.rankings["t2i"]
    assert len(t2i.queries) == len(t2i.found) == len(t2i.scores) == 120
    assert max(map(len, t2i.found)) == 25
    assert all(list(row) == sorted(row, reverse=True) for row in t2i.scores)


def test_a_pool_of_captions() -> None:
    pool = CaptionPool.of(SCENES)
    assert pool.texts == [caption for item in SCENES.items for caption in item.captions]
    assert pool.text_ids[:6] == [*(f"{pool.image_ids[0]}#{n}" for n in range(5)), f"{pool.image_ids[1]}#0"]
    assert pool.asking == 150
    assert [pool.texts[row] for row in pool.texts_of(7)] == list(SCENES.items[7].captions)


def test_without_a_second_caption() -> None:
    with pytest.raises(DataError, match="no photo has a second caption to ask with"):
        draw(make_pool(captions=1), np.random.default_rng(0))
