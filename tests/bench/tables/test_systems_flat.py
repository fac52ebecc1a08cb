from dataclasses import replace

import pytest

from lexlip.measure.recall import recall_at_k
from lexlip.bench.tables.systems_flat import flat, flat_without_weights
from lexlip.bench.tables.systems import Settings
from lexlip.search.engines import exact_engine
from tests.measure.pools import make_pool

POOL = make_pool()


def test_recalls_are_those_of_cosines() -> None:
    one, many = flat(POOL, Settings())
    with exact_engine(POOL.image_ids, POOL.images) as engine:
        found, _ = engine.search(POOL.captions[: POOL.asking], 10)
    assert one.t2i == many.t2i == recall_at_k(found, POOL.right_images)
    with exact_engine(POOL.text_ids, POOL.captions) as engine:
        found, _ = engine.search(POOL.images[POOL.asking_images], 10)
    assert one.i2t == many.i2t == recall_at_k(found, POOL.right_texts)


def test_recalls_are_those_of_dot_products_where_the_model_says_so() -> None:
    pool = replace(POOL, metric="dot")
    one, _ = flat(pool, Settings())
    with exact_engine(POOL.image_ids, POOL.images, metric="dot") as engine:
        found, _ = engine.search(POOL.captions[: POOL.asking], 10)
    assert one.t2i == recall_at_k(found, POOL.right_images) != flat(POOL, Settings())[0].t2i


def test_sizes_and_what_is_timed() -> None:
    one, many = flat(POOL, Settings())
    assert (one.name, many.name) == ("CLIP, one by one", "CLIP, 256 together")
    assert one.documents == "dense"
    assert one.item_bytes == 4 * 20
    vectors = 4 * 20 * 40 / 1e6
    assert vectors < one.megabytes_without_ids < vectors + 1e-4
    ids = (sum(len(id) + 3 for id in POOL.image_ids) + 1) / 1e6  # in JSON
    assert one.megabytes - one.megabytes_without_ids == pytest.approx(ids)
    assert (one.timed.queries, one.timed.least, many.timed.least) == (30, 1, 256)
    assert min(system.timed.seconds(7) for system in (one, many)) > 0


def test_synthetic_vectors_are_in_both_pools() -> None:
    few, many = flat(POOL, Settings())[0], flat(POOL, Settings(synthetic=5000))[0]
    assert many.items == 5040
    assert few.t2i is not None
    assert many.t2i is not None
    assert many.t2i["R@10"] < few.t2i["R@10"]
    assert few.i2t is not None
    assert many.i2t is not None
    assert many.i2t["R@10"] < few.i2t["R@10"]


def test_without_weights_there_is_size_and_speed() -> None:
    one, many = flat_without_weights(["a", "b"], 7, Settings(synthetic=10))
    assert (one.items, one.item_bytes, one.timed.queries) == (12, 2048, 7)
    assert one.megabytes_without_ids == pytest.approx(12 * 2048 / 1e6, rel=0.01)
    assert (one.t2i, one.i2t, many.t2i, many.i2t) == (None, None, None, None)
    assert one.timed.seconds(7) > 0
