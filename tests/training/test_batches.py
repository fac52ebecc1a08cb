from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from lexlip.config import Config, DataConfig, OptimConfig, SourceConfig
from lexlip.data import Scenes, open_source
from lexlip.errors import DataError
from lexlip.training.batches import Order, TrainingPhotos, collate, open_configured, training_batches
from tests.tiny import TINY

AUGMENTED = Config(
    seed=3,
    data=DataConfig(captions_per_image=2, crop=0.5, flip=True, randaugment=(2, 9), workers=0),
    model=TINY,
    optim=OptimConfig(epochs=2.5, batch=4),
)


def seen(config: Config, source, first: int = 0) -> list[tuple]:
    """What a run sees from a step on: pixels, captions and owners of each batch."""
    batches, _ = training_batches(source, config, first)
    return [(b.pixels.numpy().tobytes(), b.captions, b.image_of_text.tolist()) for b in batches]


def test_a_run_does_not_depend_on_workers() -> None:
    source = Scenes(11, seed=0)
    alone = seen(AUGMENTED, source)
    assert len(alone) == 5  # 2.5 epochs of 2 whole batches
    for workers in (1, 2):
        config = replace(AUGMENTED, data=replace(AUGMENTED.data, workers=workers))
        assert seen(config, source) == alone


def test_a_resumed_run_sees_the_rest() -> None:
    source = Scenes(11, seed=0)
    whole = seen(AUGMENTED, source)
    for first in range(6):
        assert seen(AUGMENTED, source, first) == whole[first:]


def test_another_seed_sees_something_else() -> None:
    source = Scenes(11, seed=0)
    first, second = seen(AUGMENTED, source), seen(replace(AUGMENTED, seed=4), source)
    assert all(a[0] != b[0] for a, b in zip(first, second, strict=True))


def test_torch_s_own_generator_is_left_alone() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    seen(AUGMENTED, Scenes(8, seed=0))
    assert torch.equal(torch.get_rng_state(), before)


def test_epochs_differ_in_order_captions_and_augmentation() -> None:
    photos = TrainingPhotos(Scenes(8, seed=0), AUGMENTED)
    (pixels, captions, all_captions), again = photos[(0, 5)], photos[(0, 5)]
    assert torch.equal(pixels, again[0])
    assert captions == again[1]
    assert len(set(captions)) == 2
    assert set(captions) < set(all_captions)
    others = [photos[(epoch, 5)] for epoch in range(1, 5)]
    assert not any(torch.equal(pixels, other[0]) for other in others)
    assert any(captions != other[1] for other in others)


def test_order_is_a_permutation_an_epoch() -> None:
    photos = [3, 5, 8, 13, 21, 34, 55]
    order = list(Order(photos, batch=2, steps=9, first=0, seed=1))
    assert [len(batch) for batch in order] == [2] * 9
    for epoch in range(3):
        keys = [key for batch in order[3 * epoch : 3 * epoch + 3] for key in batch]
        assert {e for e, _ in keys} == {epoch}
        indices = [index for _, index in keys]
        assert len(set(indices)) == 6
        assert set(indices) <= set(photos)
    assert order[0] != order[3]
    assert len(Order(photos, 2, 9, 4, 1)) == 5
    assert list(Order(photos, 2, 9, 4, 1)) == order[4:]


def test_without_augmentation_a_photo_is_what_the_encoder_gets() -> None:
    config = replace(AUGMENTED, data=DataConfig(workers=0))
    source = Scenes(4, seed=0)
    pixels, _, _ = TrainingPhotos(source, config)[(0, 2)]
    expected = source.image(2).resize((32, 32), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(pixels.numpy(), np.asarray(expected).transpose(2, 0, 1))


@pytest.mark.parametrize("workers", [0, 1])
def test_unreadable_photos_are_reported_and_left_out(tmp_path: Path, workers: int) -> None:
    lines = []
    for number in range(6):
        Image.new("RGB", (40, 30), (40 * number, 0, 0)).save(tmp_path / f"{number}.jpg")
        lines.append(f"{number}.jpg\tphoto {number}\n")
    (tmp_path / "captions.tsv").write_text("".join(lines))
    source = open_source(tmp_path / "captions.tsv")
    (tmp_path / "2.jpg").write_bytes(b"no photo")
    config = replace(AUGMENTED, data=DataConfig(workers=workers), optim=OptimConfig(epochs=1, batch=6))
    [batch] = training_batches(source, config, 0)[0]
    assert len(batch.pixels) == 5
    assert sorted(batch.captions) == [f"photo {n}" for n in (0, 1, 3, 4, 5)]
    assert batch.image_of_text.tolist() == [0, 1, 2, 3, 4]
    assert batch.unreadable == [f"{tmp_path}/2.jpg: not an image"]


def test_a_batch_of_unreadable_photos_alone() -> None:
    batch = collate(["a.jpg: truncated", "b.jpg: truncated"])
    assert len(batch.pixels) == 0
    assert batch.captions == []
    assert len(batch.unreadable) == 2


def test_photos_without_captions_are_not_trained_on(tmp_path: Path) -> None:
    for number in range(4):
        Image.new("RGB", (40, 30)).save(tmp_path / f"{number}.jpg")
    for number in (1, 3):
        (tmp_path / f"{number}.txt").write_text(f"photo {number}\n")
    config = replace(AUGMENTED, data=DataConfig(workers=0), optim=OptimConfig(epochs=1, batch=2))
    [batch] = training_batches(open_source(tmp_path), config, 0)[0]
    assert sorted(batch.captions) == ["photo 1", "photo 3"]


def test_fewer_photos_than_a_batch() -> None:
    with pytest.raises(
        DataError, match="3 drawn scenes of seed 0 has 3 photos with captions, fewer than a batch"
    ):
        training_batches(Scenes(3, seed=0), AUGMENTED, 0)


def test_several_sources_are_one() -> None:
    source = open_configured([SourceConfig("scenes:3:0"), SourceConfig("scenes:2:5")])
    assert len(source) == 5
    assert source.items[3].captions == Scenes(1, seed=5).items[0].captions
