from dataclasses import replace

import numpy as np
import torch
from PIL import Image

from lexlip.config import DataConfig
from lexlip.data import Scenes
from lexlip.training.augmentation import Key, Sample
from tests.training.augmented import AUGMENTED, photos_of


def test_epochs_differ_in_order_captions_and_augmentation() -> None:
    source = Scenes(8, seed=0)
    photos = photos_of(source, AUGMENTED)
    sample, again = photos[Key(0, 5, 32)], photos[Key(0, 5, 32)]
    assert isinstance(sample, Sample)
    assert isinstance(again, Sample)
    assert torch.equal(sample.pixels, again.pixels)
    assert sample.drawn == again.drawn
    assert len(set(sample.drawn)) == 2
    assert sample.captions == tuple(source.items[5].captions)
    assert set(sample.drawn) < set(range(len(sample.captions)))
    others = [photos[Key(epoch, 5, 32)] for epoch in range(1, 5)]
    assert all(isinstance(other, Sample) for other in others)
    assert not any(torch.equal(sample.pixels, other.pixels) for other in others)
    assert any(sample.drawn != other.drawn for other in others)


def test_without_augmentation_a_photo_is_what_the_encoder_gets() -> None:
    config = replace(AUGMENTED, data=DataConfig(workers=0))
    source = Scenes(4, seed=0)
    sample = photos_of(source, config)[Key(0, 2, 32)]
    assert isinstance(sample, Sample)
    expected = source.image(2).resize((32, 32), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(sample.pixels.numpy(), np.asarray(expected).transpose(2, 0, 1))
