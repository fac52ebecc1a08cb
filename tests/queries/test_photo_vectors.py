import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix, vstack

from lexlip.data import Scenes, open_source
from lexlip.errors import ConfigError, DataError
from lexlip.models.lexlip import LexLIP
from lexlip.queries.photo_vectors import PhotoPixels, PhotoVectors, encode_captions
from tests.tiny import CAPTIONS, tiny_model


@pytest.mark.usefixtures("workers_are_forked")
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


def test_a_folder_that_vanishes_is_no_photo_that_is_unreadable(photos: Path) -> None:
    vectors = PhotoVectors(tiny_model(), open_source(photos), batch=2, workers=0)
    read = iter(vectors)
    assert next(read)[0] == ["0.jpg", "1.jpg"]
    (photos / "2.jpg").unlink()
    assert next(read)[0] == ["3.jpg"]
    photos.rename(f"{photos}.away")
    with pytest.raises(
        DataError, match="is not there any more: bring it back, and give the same command again"
    ):
        next(read)
    assert [skip.id for skip in vectors.skipped] == ["2.jpg"]


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


class OnSmallGpu:
    """A model that says it is on a GPU, whose memory is enough for so many photos."""

    device = torch.device("cuda", 0)

    def __init__(self, model: LexLIP, room: int) -> None:
        self.model, self.config, self.room, self.batches = model, model.config, room, list[int]()

    def encode_image(self, photos: torch.Tensor) -> csr_matrix:
        self.batches.append(len(photos))
        if len(photos) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return self.model.encode_image(photos)


def test_a_gpu_encodes_ahead_and_in_halves_if_its_memory_is_small() -> None:
    model, source = tiny_model(), Scenes(10, seed=0)
    gpu = OnSmallGpu(model, room=2)
    found = list(PhotoVectors(gpu, source, batch=5))
    assert [ids for ids, _ in found] == [
        [item.id for item in source.items[:5]],
        [i.id for i in source.items[5:]],
    ]
    assert gpu.batches == [5, 3, 2, 1, 2] * 2
    expected = [vectors for _, vectors in PhotoVectors(model, source, batch=5)]
    for (_, vectors), other in zip(found, expected, strict=True):
        np.testing.assert_allclose(vectors.toarray(), other.toarray(), rtol=1e-4, atol=1e-5)


def test_a_gpu_without_memory() -> None:
    with pytest.raises(ConfigError, match="too small to encode a photo; free some, or give --device cpu"):
        list(PhotoVectors(OnSmallGpu(tiny_model(), room=0), Scenes(3, seed=0), batch=3))


def test_no_thread_is_left_where_a_gpu_s_vectors_are_given_up() -> None:
    before = threading.active_count()
    batches = iter(PhotoVectors(OnSmallGpu(tiny_model(), room=9), Scenes(20, seed=0), batch=2))
    next(batches)
    del batches
    assert threading.active_count() == before


def test_captions_a_few_at_a_time() -> None:
    model = tiny_model()
    whole, few = (encode_captions(model, CAPTIONS, batch=batch) for batch in (None, 4))
    np.testing.assert_allclose(whole.toarray(), few.toarray(), rtol=1e-4, atol=1e-5)


def test_progress_is_told_after_each_batch() -> None:
    told: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        told.append((done, total))

    image, source = tiny_model().config.image, Scenes(5, seed=0)
    photos = PhotoPixels(image, source, batch=2, workers=0, progress=progress)
    assert sum(len(ids) for ids, _ in photos.pixels()) == 5
    assert told == [(0, 5), (2, 5), (4, 5), (5, 5)]
