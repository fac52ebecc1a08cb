import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import vstack

from lexlip.data import Scenes, open_source
from lexlip.photo_vectors import PhotoVectors
from tests.tiny import tiny_model


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_vectors_in_the_order_of_the_source(workers: int) -> None:
    model, source = tiny_model(), Scenes(70, seed=0)
    batches = list(PhotoVectors(model, source, batch=16, workers=workers))
    assert [len(ids) for ids, _ in batches] == [16, 16, 16, 16, 6]
    assert [id for ids, _ in batches for id in ids] == [item.id for item in source.items]
    whole = vstack([vectors for _, vectors in batches]).toarray()
    alone = [vectors for _, vectors in PhotoVectors(model, source, batch=1, workers=0)]
    np.testing.assert_allclose(whole, vstack(alone).toarray(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("indices", [[], [2, 3, 5]])
def test_some_photos(indices: list[int]) -> None:
    model, source = tiny_model(), Scenes(6, seed=0)
    ids = [id for ids, _ in PhotoVectors(model, source, batch=2, indices=indices) for id in ids]
    assert ids == [source.items[index].id for index in indices]


def test_unreadable_photos_are_listed(tmp_path: Path) -> None:
    for index in (0, 2):
        Scenes(3, seed=0).image(index).save(tmp_path / f"{index}.png")
    (tmp_path / "1.png").write_bytes(b"no photo")
    vectors = PhotoVectors(tiny_model(), open_source(tmp_path), batch=1)
    for _ in range(2):  # and listed once, however often they are met
        assert [ids for ids, _ in vectors] == [["0.png"], ["2.png"]]
        assert [tuple(skip) for skip in vectors.skipped] == [("1.png", "not an image")]


def test_torch_s_own_generator_is_left_alone() -> None:
    model = tiny_model()
    before = torch.get_rng_state()
    list(PhotoVectors(model, Scenes(3, seed=0)))
    assert torch.equal(torch.get_rng_state(), before)


def test_no_thread_is_left_where_an_iteration_is_given_up() -> None:
    before = threading.active_count()
    batches = iter(PhotoVectors(tiny_model(), Scenes(20, seed=0), batch=2))
    next(batches)
    assert threading.active_count() > before
    del batches
    assert threading.active_count() == before
