from dataclasses import replace

import numpy as np
import pytest

from lexlip.bench.tables.folds import fold_sources, fold_vectors, mean_report
from lexlip.data import Scenes
from lexlip.errors import DataError
from lexlip.measure.evaluate import Ranking
from lexlip.measure.pool import PoolVectors
from tests.bench.tables.some_table import REPORT
from tests.measure.pools import make_pool, pool_of

VECTORS = make_pool(photos=11, queries=11)


def test_photos_are_divided_in_order_with_their_captions() -> None:
    parts = list(fold_vectors(VECTORS, 3))
    assert [part.pool.image_ids for part in parts] == [
        [f"{photo}.jpg" for photo in photos] for photos in (range(4), range(4, 8), range(8, 11))
    ]
    for name in ("text_ids", "texts"):
        assert [each for part in parts for each in getattr(part.pool, name)] == getattr(VECTORS.pool, name)
    for name in ("images", "captions"):
        together = np.concatenate([getattr(part, name).toarray() for part in parts])
        assert (together == getattr(VECTORS, name).toarray()).all()
    for part in parts:
        assert part.pool.all_are_queries
        owners = [part.pool.image_ids[owner] for owner in part.pool.owners]
        assert owners == [id.partition("#")[0] for id in part.pool.text_ids]


def brute_force(vectors: PoolVectors, photos: range, k: int) -> float:
    """R@k of captions of some photos that search these photos alone, in percent."""
    images = vectors.images.toarray()[photos.start : photos.stop]
    images = images / np.linalg.norm(images, axis=1, keepdims=True)
    right = []
    for owner, caption in zip(vectors.pool.owners, vectors.captions.toarray(), strict=True):
        if owner in photos:
            best = np.argsort(-(images @ caption), kind="stable")[:k] + photos.start
            right.append(owner in best)
    return 100 * float(np.mean(right))


def test_recalls_are_means_over_pools_of_their_own() -> None:
    from lexlip.measure.evaluate import measure
    from lexlip.search.engines.exact import exact_engine

    vectors = make_pool(photos=40, queries=40)
    reports = [measure(part, exact_engine, short=False) for part in fold_vectors(vectors, 4)]
    mean = mean_report(reports)
    for k in (1, 5):
        folds = [brute_force(vectors, range(start, start + 10), k) for start in range(0, 40, 10)]
        assert mean.t2i[f"R@{k}"] == pytest.approx(np.mean(folds))
        assert [report.t2i[f"R@{k}"] for report in reports] == pytest.approx(folds)
    assert (mean.images, mean.captions) == (10, 30)
    whole = measure(vectors, exact_engine, short=False)
    assert mean.t2i["R@1"] > whole.t2i["R@1"]  # fewer to confuse it with


def test_sources_are_divided_alike() -> None:
    scenes = Scenes(11, seed=0)
    parts = list(fold_sources(scenes, 3))
    assert [len(part) for part in parts] == [4, 4, 3]
    assert [item for part in parts for item in part.items] == list(scenes.items)


def test_the_mean_of_one_is_the_report() -> None:
    ranked = replace(REPORT, rankings={"t2i": Ranking([], [], [], [])})
    assert mean_report([ranked]) is ranked
    mean = mean_report([ranked, replace(REPORT, t2i={**REPORT.t2i, "R@1": 4.0})])
    assert (mean.t2i["R@1"], mean.t2i["R@5"], mean.i2t, mean.rankings) == (
        *(2.5, REPORT.t2i["R@5"], REPORT.i2t, {}),
    )


def test_folds_that_cannot_be() -> None:
    with pytest.raises(DataError, match="11 photos cannot be divided into 12 folds"):
        list(fold_vectors(VECTORS, 12))
    bare = replace(make_pool(photos=2, queries=2), pool=pool_of([0], ["dog"], photos=2, text_queries=1))
    with pytest.raises(DataError, match="one of 2 folds has no captions"):
        list(fold_vectors(bare, 2))
