"""Batches of photos and captions, with an augmentation and a masking that depend on the seed alone.

What a photo looks like in an epoch, and which words of a caption are masked, is a function of (seed,
epoch, index): a resumed run sees what an uninterrupted one would have seen, however many workers and
processes there are. Worker processes do all of it: decoding, augmentation, tokenization, masking.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.utils.data import Dataset
from torchvision import transforms
from torchvision.transforms.functional import pil_to_tensor
from transformers import PreTrainedTokenizerBase

from lexlip.config import Config, ImageEncoderConfig
from lexlip.data import Source, UnreadableImage
from lexlip.encoders.image import square
from lexlip.training.composing import compose, content_words
from lexlip.training.masking import NOT_MASKED, Masking, mask_words
from lexlip.vocabulary import Vocabulary, tokenize_captions

if TYPE_CHECKING:
    from lexlip.training.views import Views

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # workers are forked and tokenize


LIKENESS = 10.0  # of captions, against chance, where negatives are hard
_OTHER, _COMPOSED = 1, 2  # what is drawn besides masks


class Key(NamedTuple):
    """One photo of one step."""

    epoch: int
    photo: int  # its index in the source
    size: int  # pixels


@dataclass(frozen=True)
class Batch:
    """B photos with T captions of L tokens, those of one photo together, photos in order.

    Attributes:
        pixels: uint8 [B, 3, S, S]; of `lexlip.training.views` token states, float16 [B, P, C].
        photos: int64 [B], their indices in the source.
        image_of_text: int64 [T], the row of each caption's photo.
        ids: int64 [T, L] token ids.
        mask: bool [T, L], where `ids` are no padding.
        text_words: int64 [2, n], (caption, column of the vocabulary) for each word a caption holds.
        photo_words: int64 [2, m], (photo, column) for each word of each caption of a photo.
        encoder_ids, decoder_ids: int64 [T, L], `ids` as masked for the text encoder and the decoders.
        encoder_labels, decoder_labels: int64 [T, L], columns of the masked words, NOT_MASKED elsewhere.
        other_ids, other_mask: int64 and bool [T, M], a caption of another photo for each, to match pairs.
        composed_ids, composed_mask: int64 and bool [T, M], each caption with other words, if those are asked
            for; see `lexlip.training.composing`.
        unreadable: what could not be read and was left out.
    """

    pixels: Tensor
    photos: Tensor
    image_of_text: Tensor
    ids: Tensor
    mask: Tensor
    text_words: Tensor
    photo_words: Tensor
    encoder_ids: Tensor
    encoder_labels: Tensor
    decoder_ids: Tensor
    decoder_labels: Tensor
    other_ids: Tensor
    other_mask: Tensor
    composed_ids: Tensor
    composed_mask: Tensor
    unreadable: tuple[str, ...] = ()

    def to(self, device: torch.device) -> Batch:
        """The batch on a device."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> Batch:
        """The batch in page-locked memory, for the data loader."""
        return self._map(Tensor.pin_memory)

    def _map(self, function: object) -> Batch:
        tensors = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "unreadable"}
        return replace(self, **{name: function(tensor) for name, tensor in tensors.items()})  # type: ignore[operator]

    def split(self, images: int) -> list[Batch]:
        """Parts of at most so many photos with their captions, in order; without their words."""
        parts = []
        for start in range(0, len(self.pixels), images):
            texts = torch.nonzero((self.image_of_text >= start) & (self.image_of_text < start + images))[:, 0]
            first, last = (int(texts[0]), int(texts[-1]) + 1) if len(texts) else (0, 0)
            rows = slice(first, last)
            parts.append(
                replace(
                    self,
                    pixels=self.pixels[start : start + images],
                    photos=self.photos[start : start + images],
                    image_of_text=self.image_of_text[rows] - start,
                    text_words=self.text_words[:, :0],
                    photo_words=self.photo_words[:, :0],
                    **{
                        name: getattr(self, name)[rows]
                        for name in ("ids", "mask", "encoder_ids", "encoder_labels")
                        + ("decoder_ids", "decoder_labels", "other_ids", "other_mask")
                        + ("composed_ids", "composed_mask")
                    },
                )
            )
        return parts


class Sample(NamedTuple):
    """A photo as `Photos` gives it."""

    key: Key
    pixels: Tensor  # uint8 [3, S, S], or float16 [P, C]
    chosen: list[int]  # of its captions
    captions: tuple[str, ...]


class Photos(Dataset):
    """Augmented photos with some of their captions, addressed by Key; a text says what is unreadable.

    Args:
        source: the photos.
        config: how they are augmented.
        views: what the image encoder's body makes of them, in place of pixels.
    """

    def __init__(self, source: Source, config: Config, views: Views | None = None) -> None:
        self.source, self.seed, self.views = source, config.seed, views
        self.captions_per_image = config.data.captions_per_image
        sizes = {config.model.image.size, *config.data.sizes}
        self.augment = {size: augmentation(config, size) for size in sizes}

    def __getitem__(self, key: Key) -> Sample | str:
        numbers = np.random.default_rng((self.seed, key.epoch, key.photo))
        captions = self.source.items[key.photo].captions
        chosen = numbers.permutation(len(captions))[: self.captions_per_image].tolist()
        if self.views is None:
            pixels = self.pixels(key.photo, key.size, int(numbers.integers(2**62)))
        else:
            pixels = self.views.draw(key.photo, numbers)
        return pixels if isinstance(pixels, str) else Sample(key, pixels, chosen, captions)

    def pixels(self, photo: int, size: int, seed: int) -> Tensor | str:
        """A photo augmented as `seed` draws, uint8 [3, size, size], or why it cannot be read."""
        try:
            picture = self.source.image(photo, size)
        except UnreadableImage as error:
            return str(error)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)  # not that of a GPU
            augmented: Tensor = self.augment[size](picture)
        return augmented


def augmentation(config: Config, size: int) -> transforms.Compose:
    """PIL photo -> uint8 [3, size, size], as `config.data` says: random crop, mirroring, RandAugment."""
    image: ImageEncoderConfig = replace(config.model.image, size=size)
    steps: list[object] = [partial(square, config=image)]
    if config.data.crop < 1:
        bicubic = transforms.InterpolationMode.BICUBIC
        steps = [transforms.RandomResizedCrop(size, (config.data.crop, 1.0), interpolation=bicubic)]
    if config.data.flip:
        steps.append(transforms.RandomHorizontalFlip())
    if config.data.randaugment[0]:
        steps.append(transforms.RandAugment(*config.data.randaugment))
    return transforms.Compose([*steps, pil_to_tensor])


class Collate:
    """Samples, or the reasons why photos could not be read, as a Batch.

    Args:
        config: which captions are masked, and how much.
        tokenizer: the text encoder's.
        vocabulary: the lexicon, whose columns are the words and the labels.
    """

    def __init__(self, config: Config, tokenizer: PreTrainedTokenizerBase, vocabulary: Vocabulary) -> None:
        self.tokenizer, self.vocabulary = tokenizer, vocabulary
        self.max_tokens, self.seed, self.objective = (
            config.model.text.max_tokens,
            config.seed,
            config.objective,
        )
        self.masking = Masking.of(config.objective, tokenizer)

    def __call__(self, samples: Sequence[Sample | str]) -> Batch:
        good = [sample for sample in samples if isinstance(sample, Sample)]
        if len(good) == 1 and (self.objective.matching or self.objective.composed_negatives):
            good = []  # there is no other photo to tell it from
        captions = [sample.captions[i] for sample in good for i in sample.chosen]
        owners = np.repeat(np.arange(len(good)), [len(sample.chosen) for sample in good])
        ids, mask = self._tokenize(captions)
        nothing = torch.empty(2, 0, dtype=torch.int64)
        text_words = photo_words = nothing
        if self.objective.anchors:
            text_words = self._words([[caption] for caption in captions])
            photo_words = self._words([sample.captions for sample in good])
        return Batch(
            torch.stack([s.pixels for s in good]) if good else torch.empty(0, dtype=torch.uint8),
            torch.tensor([sample.key.photo for sample in good], dtype=torch.int64),
            torch.from_numpy(owners),
            ids,
            mask,
            text_words,
            photo_words,
            *self._mask(good, ids),
            *self._tokenize(self._others(good) if self.objective.matching else []),
            *self._tokenize(self._composed(good) if self.objective.composed_negatives else []),
            tuple(sample for sample in samples if isinstance(sample, str)),
        )

    def _tokenize(self, captions: list[str]) -> tuple[Tensor, Tensor]:
        if not captions:
            return torch.empty(0, 0, dtype=torch.int64), torch.empty(0, 0, dtype=torch.bool)
        batch = self.tokenizer(
            captions, truncation=True, max_length=self.max_tokens, padding=True, return_tensors="pt"
        )
        return batch["input_ids"], batch["attention_mask"].bool()

    def _others(self, good: Sequence[Sample]) -> list[str]:
        """For each caption one of another photo: any, or for a share of them one with many words in common.

        What was also written of this photo, word for word, is not given, unless the batch has nothing else.
        Each caption of the batch is given once, so that no caption by itself tells what is a pair: likeness
        alone would give short ones more often.
        """
        captions = [sample.captions[i] for sample in good for i in sample.chosen]
        owners = np.repeat(np.arange(len(good)), [len(sample.chosen) for sample in good])
        if not captions:
            return []
        numbers = np.random.default_rng((self.seed, good[0].key.epoch, good[0].key.photo, _OTHER))
        cost = numbers.random((len(captions), len(captions)))
        hard = numbers.random(len(captions)) < self.objective.hard_negatives
        cost[hard] -= LIKENESS * _likeness(captions)[hard]
        own = owners[:, None] == owners[None, :]
        of_photo = [set(map(str.casefold, sample.captions)) for sample in good]
        true = own | [[caption.casefold() in of_photo[owner] for caption in captions] for owner in owners]
        true = np.where(true.all(axis=1, keepdims=True), own, true)
        given = linear_sum_assignment(np.where(true, len(captions) * LIKENESS * 2, cost))[1]
        for row in np.flatnonzero(true[np.arange(len(given)), given]):  # most captions are true of one photo
            given[row] = numbers.choice(np.flatnonzero(~true[row]))
        return [captions[place] for place in given]

    def _composed(self, good: Sequence[Sample]) -> list[str]:
        """For each caption itself with some of its words changed."""
        composed = []
        for row, sample in enumerate(good):
            others = [good[n].captions[i] for n in range(len(good)) if n != row for i in good[n].chosen]
            for caption, numbers in zip(sample.chosen, self._streams(sample, _COMPOSED), strict=True):
                composed.append(compose(sample.captions[caption], others, numbers))
        return composed

    def _streams(self, sample: Sample, *purpose: int) -> list[np.random.Generator]:
        """What is drawn from for each chosen caption of a sample."""
        key = sample.key
        return [np.random.default_rng((self.seed, key.epoch, key.photo, i, *purpose)) for i in sample.chosen]

    def _words(self, captions_of: Sequence[Sequence[str]]) -> Tensor:
        """int64 [2, n]: (row, column) of the distinct words of each caption; rows are those of the lists."""
        owners = [row for row, captions in enumerate(captions_of) for _ in captions]
        tokens = tokenize_captions(
            self.tokenizer, [caption for captions in captions_of for caption in captions]
        )
        found = [
            (row, column)
            for row, ids in zip(owners, tokens, strict=True)
            for column in sorted(set(self.vocabulary.columns(ids[: self.max_tokens])))
        ]
        return torch.tensor(found, dtype=torch.int64).reshape(-1, 2).t().contiguous()

    def _mask(self, good: list[Sample], ids: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        labels = torch.full_like(ids, NOT_MASKED)
        if self.masking is None or not len(ids):
            return ids, labels, ids, labels
        streams = [numbers for sample in good for numbers in self._streams(sample)]
        masked = [
            mask_words(row, self.masking, numbers) for row, numbers in zip(ids.numpy(), streams, strict=True)
        ]
        encoder_ids, encoder_chosen, decoder_ids, decoder_chosen = (
            torch.from_numpy(np.stack(part)) for part in zip(*masked, strict=True)
        )
        columns = torch.from_numpy(self.vocabulary.lookup(ids.numpy()))
        known = torch.where(columns >= 0, columns, NOT_MASKED)
        return (
            encoder_ids,
            torch.where(encoder_chosen, known, NOT_MASKED),
            decoder_ids,
            torch.where(decoder_chosen, known, NOT_MASKED),
        )


def _likeness(captions: Sequence[str]) -> np.ndarray:
    """The share of content words that each two captions have in common (Jaccard), [T, T]."""
    words = [content_words(caption) for caption in captions]
    number = {word: column for column, word in enumerate(sorted(set().union(*words)))}
    held = np.zeros((len(captions), len(number)))
    for row, found in enumerate(words):
        held[row, [number[word] for word in found]] = 1
    shared = held @ held.T
    sizes = held.sum(axis=1)
    likeness: np.ndarray = shared / np.maximum(sizes[:, None] + sizes[None, :] - shared, 1)
    return likeness
