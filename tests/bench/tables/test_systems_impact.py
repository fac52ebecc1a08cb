from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from lexlip.measure.recall import recall_at_k
from lexlip.bench.tables.systems_impact import impact
from lexlip.bench.tables.systems import Settings, System
from lexlip.search.engines import exact_engine
from lexlip.sparse.topk import topk
from tests.measure.pools import WORDS, make_pool

POOL = make_pool()


def build(settings: Settings, topks: tuple[int | None, ...] = (None, 4, 2)) -> list[System]:
    with ExitStack() as stack:
        systems = impact(stack, POOL, WORDS, topks, settings)
        assert all(system.timed.seconds(number) > 0 for system in systems for number in (1, 30))
    return systems


@pytest.fixture(scope="module")
def systems() -> list[System]:
    return build(Settings())


def test_a_row_for_each_number_of_words(systems: list[System]) -> None:
    assert [s.name for s in systems] == ["LexLIP"] * 3
    assert [s.documents for s in systems] == ["all", "top-4", "top-2"]
    assert {(s.items, s.timed.queries, s.timed.least) for s in systems} == {(40, 30, 1)}


@pytest.mark.parametrize("row", range(3))
def test_recalls_are_those_of_brute_force(systems: list[System], row: int) -> None:
    kept = (None, 4, 2)[row]
    with exact_engine(POOL.image_ids, topk(POOL.images, kept)) as engine:
        found, _ = engine.search(POOL.captions[: POOL.asking], 10)
    assert systems[row].t2i == recall_at_k(found, POOL.right_images)
    with exact_engine(POOL.text_ids, topk(POOL.captions, kept)) as engine:
        found, _ = engine.search(POOL.images[POOL.asking_images], 10)
    assert systems[row].i2t == recall_at_k(found, POOL.right_texts)


def test_sizes(systems: list[System]) -> None:
    whole, four, two = systems
    assert whole.megabytes > four.megabytes > two.megabytes
    assert whole.megabytes - whole.megabytes_without_ids == pytest.approx(
        two.megabytes - two.megabytes_without_ids
    )
    assert 0 < two.megabytes_without_ids < two.megabytes
    assert whole.item_bytes == pytest.approx(3 * POOL.images.nnz / 40)
    assert four.item_bytes == pytest.approx(3 * topk(POOL.images, 4).nnz / 40)


def test_synthetic_vectors_are_in_both_pools(systems: list[System]) -> None:
    larger = build(Settings(synthetic=5000), (4,))
    assert larger[0].items == 5040
    assert larger[0].megabytes > systems[1].megabytes
    for few, many in ((systems[1].t2i, larger[0].t2i), (systems[1].i2t, larger[0].i2t)):
        assert few is not None
        assert many is not None
        assert many["R@10"] < few["R@10"]


def test_the_paper_s_quantisation_and_several_threads(systems: list[System]) -> None:
    assert build(Settings(threads=2))[1].t2i == systems[1].t2i
    assert build(Settings(scheme="paper"))[1].t2i != systems[1].t2i


def test_nothing_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    build(Settings())
    assert list(tmp_path.iterdir()) == []


def test_a_photo_without_words() -> None:
    images = POOL.images.toarray()
    images[3] = 0
    pool = make_pool()
    object.__setattr__(pool, "images", csr_matrix(images))
    with ExitStack() as stack:
        (system,) = impact(stack, pool, WORDS, [4], Settings())
    assert system.items == 40
    assert system.item_bytes == pytest.approx(3 * topk(pool.images, 4).nnz / 40)
    assert np.isfinite(system.megabytes)
