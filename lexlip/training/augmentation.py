"""Photos for training: random crop, mirroring and RandAugment, as `config.data` says.

What a photo looks like in an epoch depends on (seed, epoch, photo) alone: a resumed run sees what an
uninterrupted one would have seen, however many workers and processes there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset
from torchvision import transforms
from torchvision.transforms.functional import pil_to_tensor

from lexlip.config import DataConfig, ImageEncoderConfig
from lexlip.data import Source, UnreadableImage
from lexlip.encoders.framing import square

Augmentation = Callable[[Image.Image], Tensor]  # -> uint8 [3, S, S]


def augmentation(data: DataConfig, image: ImageEncoderConfig, size: int) -> Augmentation:
    """Return what turns a photo into pixels, uint8 [3, size, size], by torch's generator."""
    steps: list[object] = [partial(square, config=replace(image, size=size))]
    if data.crop < 1:
        bicubic = transforms.InterpolationMode.BICUBIC
        steps = [transforms.RandomResizedCrop(size, (data.crop, 1.0), interpolation=bicubic)]
    if data.flip:
        steps.append(transforms.RandomHorizontalFlip())
    if data.randaugment[0]:
        steps.append(transforms.RandAugment(*data.randaugment))
    augment: Augmentation = transforms.Compose([*steps, pil_to_tensor])
    return augment


class Key(NamedTuple):
    """One photo of one step."""

    epoch: int  # which pass over the photos, or over the pairs
    photo: int  # its index in the source
    size: int  # pixels along a side
    captions: tuple[int, ...] | None = None  # which of its captions go with it; None: some are drawn


class Sample(NamedTuple):
    """A photo for training, given by pixels or by a frozen image body's tokens of a view."""

    key: Key
    pixels: Tensor | None  # uint8 [3, S, S]
    tokens: Tensor | None  # float16 [P, C]
    drawn: list[int]  # which of its captions were drawn
    captions: tuple[str, ...]  # all of them


class FrozenViews:
    """What a frozen image body makes of each view of some photos; see `lexlip.training.frozen_views`.

    Args:
        tokens: float16 [N, views, P, C].
        photos: int64 [N], their indices in the source, ascending.
        unreadable: why some of them cannot be read, by index.
    """

    def __init__(self, tokens: np.ndarray, photos: np.ndarray, unreadable: dict[int, str]) -> None:
        self.tokens, self.photos, self.unreadable = tokens, photos, unreadable

    def draw(self, photo: int, rng: np.random.Generator) -> Tensor | str:
        """Return one view of a photo, float16 [P, C], or why the photo cannot be read."""
        if photo in self.unreadable:
            return self.unreadable[photo]
        row, view = np.searchsorted(self.photos, photo), rng.integers(self.tokens.shape[1])
        return torch.from_numpy(self.tokens[row, view].copy())


class AugmentedPhotos(Dataset):
    """Augmented photos with some of their captions, addressed by `Key`; `views` replace the pixels.

    An unreadable photo is given as a text that says why.
    """

    def __init__(
        self,
        source: Source,
        data: DataConfig,
        image: ImageEncoderConfig,
        seed: int,
        views: FrozenViews | None = None,
    ) -> None:
        self.source, self.seed, self.views = source, seed, views
        self.captions_per_image = data.captions_per_image
        self.augment = {size: augmentation(data, image, size) for size in {image.size, *data.sizes}}

    def __getitem__(self, key: Key) -> Sample | str:
        rng = np.random.default_rng((self.seed, key.epoch, key.photo, *(key.captions or ())))
        captions = self.source.items[key.photo].captions
        if key.captions is None:
            drawn = rng.permutation(len(captions))[: self.captions_per_image].tolist()
        else:
            drawn = list(key.captions)
        if self.views is not None:
            tokens = self.views.draw(key.photo, rng)
            return tokens if isinstance(tokens, str) else Sample(key, None, tokens, drawn, captions)
        pixels = self.pixels(key.photo, key.size, int(rng.integers(2**62)))
        return pixels if isinstance(pixels, str) else Sample(key, pixels, None, drawn, captions)

    def pixels(self, photo: int, size: int, seed: int) -> Tensor | str:
        """Return a photo, augmented as `seed` draws, uint8 [3, size, size], or why it cannot be read."""
        try:
            picture = self.source.image(photo, size)
        except UnreadableImage as error:
            return str(error)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)  # the CPU's alone
            return self.augment[size](picture)
