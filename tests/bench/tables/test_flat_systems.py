"""Brute force over dense vectors."""

from typing import Any

import pytest

from lexlip.bench.tables.flat_systems import flat, flat_without_weights
from lexlip.bench.tables.settings import TableSettings
from lexlip.measure.recall import recall_at_k
from lexlip.search.engines.exact import exact_engine
from tests.bench.tables.some_systems import recall, size_of, timed
from tests.measure.pools import make_pool, pool_of

VECTORS = make_pool()
POOL = VECTORS.pool


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_recalls_are_those_of_the_model_s_metric(metric: Any) -> None:
    vectors = make_pool(metric=metric)
    one, many = flat(vectors, TableSettings())
    with exact_engine(POOL.image_ids, VECTORS.images, metric=metric) as engine:
        found, _ = engine.search(VECTORS.query_captions(), 10)
    assert one.row.t2i == many.row.t2i == recall_at_k(found, POOL.relevant_images)
    with exact_engine(POOL.text_ids, VECTORS.captions, metric=metric) as engine:
        found, _ = engine.search(VECTORS.query_images, 10)
    assert one.row.i2t == many.row.i2t == recall_at_k(found, POOL.relevant_texts)
    if metric == "dot":
        assert one.row.t2i != flat(VECTORS, TableSettings())[0].row.t2i


def test_sizes_of_dense_vectors_and_what_is_timed() -> None:
    one, many = flat(VECTORS, TableSettings())
    assert (one.row.model, many.row.model) == ("CLIP, one by one", "CLIP, 256 together")
    assert one.row.documents == "dense"
    size = size_of(one)
    assert size.accounted == 4 * 20
    vectors = 4 * 20 * 40 / 1e6
    assert vectors < size.megabytes_without_ids < vectors + 1e-4
    ids = (sum(len(id) + 3 for id in POOL.image_ids) + 1) / 1e6  # in JSON
    assert size.megabytes - size.megabytes_without_ids == pytest.approx(ids)
    assert one.row.photo_bytes == pytest.approx(1e6 * size.megabytes / 40)
    assert (timed(one).queries, timed(one).least, timed(many).least) == (30, 1, 256)
    assert min(timed(system).seconds(7) for system in (one, many)) > 0


def test_synthetic_dense_vectors_are_in_both_pools() -> None:
    few, many = (flat(VECTORS, TableSettings(synthetic=number))[0].row for number in (0, 5000))
    assert many.photos == 5040
    for way in ("t2i", "i2t"):
        assert recall(many, way) < recall(few, way)


def test_without_weights_there_is_size_and_speed() -> None:
    pool = pool_of([0] * 7, ["a"] * 7, photos=2, text_queries=7)
    one, many = flat_without_weights(pool, TableSettings(synthetic=10))
    assert (one.row.photos, size_of(one).accounted, timed(one).queries) == (12, 2048, 7)
    assert size_of(one).megabytes_without_ids == pytest.approx(12 * 2048 / 1e6, rel=0.01)
    assert (one.row.t2i, one.row.i2t, many.row.t2i, many.row.i2t) == (None, None, None, None)
    assert timed(one).seconds(7) > 0
