"""Batches of photos and captions, in an order and with an augmentation that depend on the seed alone.

What a photo looks like in an epoch is a function of (seed, epoch, index): a resumed run sees what an
uninterrupted one would have seen, however many workers there are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.transforms.functional import pil_to_tensor

from lexlip.config import Config, SourceConfig
from lexlip.data import Source, UnreadableImage, open_source
from lexlip.data.joined import JoinedSource
from lexlip.encoders.image import square
from lexlip.errors import DataError
from lexlip.models.lexlip import LexLIP

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # workers are forked after captions are tokenized

Key = tuple[int, int]  # epoch, index of the photo


def open_configured(configs: Sequence[SourceConfig]) -> Source:
    """The photos of a config's list of sources.

    Raises:
        DataError: a source is missing or holds nothing.
    """
    sources = [open_source(c.path, c.images, c.split) for c in configs]
    return sources[0] if len(sources) == 1 else JoinedSource(sources)


@dataclass(frozen=True)
class Batch:
    """B photos with T captions.

    Attributes:
        pixels: uint8 [B, 3, S, S].
        captions: T texts, those of one photo together, photos in order.
        image_of_text: int64 [T].
        all_captions: for each photo, all of its captions.
        unreadable: what could not be read and was left out.
    """

    pixels: Tensor
    captions: list[str]
    image_of_text: Tensor
    all_captions: list[tuple[str, ...]]
    unreadable: list[str]


@dataclass(frozen=True)
class Inputs:
    """A batch as tensors: what `LexLIP.forward` takes, and what the objectives need besides."""

    pixels: Tensor  # uint8 [B, 3, S, S]
    ids: Tensor  # int64 [T, L]
    mask: Tensor  # bool [T, L]
    present: Tensor  # bool [T, V]
    image_of_text: Tensor  # int64 [T]
    word_counts: Tensor  # float [B, V]

    @classmethod
    def of(cls, batch: Batch, model: LexLIP) -> Inputs:
        """Tokenize a batch and move it to the model's device."""
        ids, mask = model.text_encoder.tokenize(batch.captions)
        flat = [caption for captions in batch.all_captions for caption in captions]
        owner = np.repeat(np.arange(len(batch.all_captions)), [len(c) for c in batch.all_captions])
        counts = torch.zeros(len(batch.pixels), len(model.vocabulary))
        counts.index_add_(0, torch.from_numpy(owner), model.words_present(flat).float())
        inputs = cls(
            batch.pixels, ids, mask, model.words_present(batch.captions), batch.image_of_text, counts
        )
        return cls(**{name: tensor.to(model.device) for name, tensor in vars(inputs).items()})

    def split(self, images: int) -> list[Inputs]:
        """Parts of at most so many photos with their captions, in order."""
        parts = []
        for start in range(0, len(self.pixels), images):
            texts = (self.image_of_text >= start) & (self.image_of_text < start + images)
            rows = slice(start, start + images)
            parts.append(
                replace(
                    self,
                    pixels=self.pixels[rows],
                    ids=self.ids[texts],
                    mask=self.mask[texts],
                    present=self.present[texts],
                    image_of_text=self.image_of_text[texts] - start,
                    word_counts=self.word_counts[rows],
                )
            )
        return parts


Sample = tuple[Tensor, list[str], tuple[str, ...]]  # pixels, chosen captions, all captions


class TrainingPhotos(Dataset):
    """Augmented photos with some of their captions, addressed by (epoch, index)."""

    def __init__(self, source: Source, config: Config) -> None:
        self.source, self.seed = source, config.seed
        self.captions_per_image = config.data.captions_per_image
        self.size = config.model.image.size
        self.augment = augmentation(config)

    def __getitem__(self, key: Key) -> Sample | str:
        epoch, index = key
        try:
            photo = self.source.image(index, self.size)
        except UnreadableImage as error:
            return str(error)
        numbers = np.random.default_rng((self.seed, epoch, index))
        captions = self.source.items[index].captions
        chosen = numbers.permutation(len(captions))[: self.captions_per_image]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(numbers.integers(2**62)))
            pixels = self.augment(photo)
        return pixels, [captions[i] for i in chosen], captions


def augmentation(config: Config) -> transforms.Compose:
    """PIL photo -> uint8 [3, S, S], as `config.data` says: random crop, mirroring, RandAugment."""
    image, data = config.model.image, config.data
    steps: list[object] = [partial(square, config=image)]
    if data.crop < 1:
        bicubic = transforms.InterpolationMode.BICUBIC
        steps = [transforms.RandomResizedCrop(image.size, (data.crop, 1.0), interpolation=bicubic)]
    if data.flip:
        steps.append(transforms.RandomHorizontalFlip())
    if data.randaugment[0]:
        steps.append(transforms.RandAugment(*data.randaugment))
    return transforms.Compose([*steps, pil_to_tensor])


def collate(samples: Sequence[Sample | str]) -> Batch:
    """Samples, or the reasons why photos could not be read, as a batch."""
    good = [sample for sample in samples if not isinstance(sample, str)]
    pixels = [pixels for pixels, _, _ in good]
    return Batch(
        torch.stack(pixels) if pixels else torch.empty(0, dtype=torch.uint8),
        [caption for _, captions, _ in good for caption in captions],
        torch.repeat_interleave(torch.tensor([len(captions) for _, captions, _ in good], dtype=torch.int64)),
        [all_captions for _, _, all_captions in good],
        [sample for sample in samples if isinstance(sample, str)],
    )


class Order:
    """Which photos each step sees: a new permutation an epoch, drawn from the seed; the rest is dropped.

    Args:
        photos: indices of the photos to train on.
        batch: photos a step.
        steps: steps of the whole run.
        first: the step to begin with; the steps before it were done by an earlier process.
        seed: of the permutations.
    """

    def __init__(self, photos: Sequence[int], batch: int, steps: int, first: int, seed: int) -> None:
        self.photos, self.batch, self.steps, self.first, self.seed = photos, batch, steps, first, seed

    def __len__(self) -> int:
        return self.steps - self.first

    def __iter__(self) -> Iterator[list[Key]]:
        per_epoch = len(self.photos) // self.batch
        epoch = -1
        for step in range(self.first, self.steps):
            if epoch != step // per_epoch:
                epoch = step // per_epoch
                shuffled = np.random.default_rng((self.seed, epoch)).permutation(self.photos)
            start = (step % per_epoch) * self.batch
            yield [(epoch, int(index)) for index in shuffled[start : start + self.batch]]


def training_batches(source: Source, config: Config, first: int) -> tuple[Iterable[Batch], int]:
    """The batches from step `first` on, and the number of steps of the whole run.

    Raises:
        DataError: fewer captioned photos than a batch.
    """
    photos = [index for index, item in enumerate(source.items) if item.captions]
    batch = config.optim.batch
    if len(photos) < batch:
        raise DataError(
            f"{source.name} has {len(photos)} photos with captions, fewer than a batch;"
            f" lower optim.batch={batch} or give more photos"
        )
    steps = max(1, int(config.optim.epochs * (len(photos) // batch)))
    order = Order(photos, batch, steps, first, config.seed)
    dataset = TrainingPhotos(source, config)
    loader = DataLoader(
        dataset,
        batch_sampler=order,  # type: ignore[arg-type]
        collate_fn=collate,
        num_workers=config.data.workers,
        generator=torch.Generator(),  # starting to iterate draws a number, and not from dropout's generator
    )
    return loader, steps
