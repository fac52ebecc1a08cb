"""Batches of photos and captions, tokenized and masked.

Which words of a caption are masked depends on (seed, epoch, photo, caption) alone, as photos do. Worker
processes do all of it.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lexlip.config import ObjectiveConfig
from lexlip.encoders.text import tokenize
from lexlip.errors import ModelError
from lexlip.training.augmentation import Sample
from lexlip.training.hard_negatives import compose, draw_other_captions
from lexlip.words.vocabulary import CONTINUES, WORD_BEGINS, Vocabulary, tokenize_captions, word_mark

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # workers are forked and tokenize

_OTHERS, _COMPOSED = 1, 2  # what is drawn besides masks
NOT_MASKED = -100  # the label of a position that is not predicted

BECOME_MASK, BECOME_RANDOM = 0.8, 0.1


@dataclass(frozen=True)
class PhotoBatch:
    """B photos, given by pixels or by what the frozen part of an image body made of them (`FrozenViews`)."""

    indices: Tensor  # int64 [B], in the source
    pixels: Tensor | None = None  # uint8 [B, 3, S, S], or regions float32 [B, N, …]
    begun: Tensor | None = None  # float16 [B, …]

    def __len__(self) -> int:
        return len(self.indices)


@dataclass(frozen=True)
class Tokens:
    """T captions: token ids int64 [T, L], and mask bool [T, L], false for padding."""

    ids: Tensor
    mask: Tensor

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class MaskedTokens:
    """T captions as masked for the text encoder and for the decoders, all int64 [T, L].

    Labels are the columns of masked words, else NOT_MASKED.
    """

    encoder_ids: Tensor
    encoder_labels: Tensor
    decoder_ids: Tensor
    decoder_labels: Tensor


@dataclass(frozen=True)
class Words:
    of_captions: Tensor  # int64 [2, n], (caption, column of the vocabulary)
    of_photos: Tensor  # int64 [2, m], (photo, column) for each word of each of the photo's texts


@dataclass(frozen=True)
class Batch:
    """B photos with T captions of L tokens; the captions of one photo are next to each other, in order."""

    photos: PhotoBatch
    captions: Tokens
    owners: Tensor  # int64 [T], the row of each caption's photo
    numbers: Tensor | None = None  # int64 [T], which of its photo's captions each is
    masked: MaskedTokens | None = None  # None if no loss needs masked words
    words: Words | None = None  # None if no loss looks at them
    others: Tokens | None = None  # for each caption one of another photo; None if no loss needs them
    composed: Tokens | None = None  # each caption with some words replaced; None if no loss needs them
    unreadable: tuple[str, ...] = ()  # photos that could not be read and were left out, with the reason

    def to(self, device: torch.device) -> Batch:
        moved: Batch = _map_tensors(self, lambda tensor: tensor.to(device, non_blocking=True))
        return moved

    def pin_memory(self) -> Batch:
        """Return the batch in page-locked memory; the data loader calls it."""
        pinned: Batch = _map_tensors(self, Tensor.pin_memory)
        return pinned

    def split(self, photos: int) -> list[Batch]:
        """Return parts of at most so many photos with their captions, in order, without `words`."""
        parts = []
        for start in range(0, len(self.photos), photos):
            texts = torch.nonzero((self.owners >= start) & (self.owners < start + photos))[:, 0]
            rows = slice(int(texts[0]), int(texts[-1]) + 1) if len(texts) else slice(0, 0)
            whole = replace(self, words=None, owners=self.owners[rows] - start)
            parts.append(
                replace(
                    whole,
                    photos=_map_tensors(self.photos, lambda t, s=start: t[s : s + photos]),
                    **{
                        name: _map_tensors(getattr(self, name), lambda t, rows=rows: t[rows])
                        for name in ("captions", "numbers", "masked", "others", "composed")
                    },
                )
            )
        return parts


def _map_tensors(value: Any, function: Callable[..., Tensor]) -> Any:
    if isinstance(value, Tensor):
        return function(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return replace(value, **{name: _map_tensors(getattr(value, name), function) for name in names})
    return value


class Collate:
    """Turns samples, or the reasons why photos could not be read, into a Batch.

    `objective` says what captions are prepared for; they are cut at `max_tokens`. The columns of `vocabulary`
    are the words and the labels. All that is drawn depends on `seed`.
    """

    def __init__(
        self,
        objective: ObjectiveConfig,
        tokenizer: PreTrainedTokenizerBase,
        max_tokens: int,
        vocabulary: Vocabulary,
        seed: int,
    ) -> None:
        self.objective, self.tokenizer, self.max_tokens = objective, tokenizer, max_tokens
        self.vocabulary, self.seed = vocabulary, seed
        self.masking = None
        if objective.masks:
            self.masking = Masking.of(tokenizer, objective.mask_encoder, objective.mask_decoder)

    def __call__(self, samples: Sequence[Sample | str]) -> Batch:
        objective = self.objective
        good = [sample for sample in samples if isinstance(sample, Sample)]
        if len(good) == 1 and (objective.matching or objective.composed_negatives):
            good = []  # a photo alone has no negatives
        captions = [sample.captions[i] for sample in good for i in sample.drawn]
        tokens = self._tokenize(captions)
        return Batch(
            photos=_stack(good),
            captions=tokens,
            owners=torch.from_numpy(np.repeat(np.arange(len(good)), [len(s.drawn) for s in good])),
            numbers=torch.tensor([i for sample in good for i in sample.drawn], dtype=torch.int64),
            masked=None if self.masking is None else self._mask(good, tokens.ids, self.masking),
            words=self._words(good, captions) if objective.reads_words else None,
            others=self._tokenize(self._others(good)) if objective.matching else None,
            composed=self._tokenize(self._composed(good)) if objective.composed_negatives else None,
            unreadable=tuple(sample for sample in samples if isinstance(sample, str)),
        )

    def _tokenize(self, captions: list[str]) -> Tokens:
        if not captions:
            return Tokens(torch.empty(0, 0, dtype=torch.int64), torch.empty(0, 0, dtype=torch.bool))
        return Tokens(*tokenize(self.tokenizer, captions, self.max_tokens))

    def _others(self, good: Sequence[Sample]) -> list[str]:
        """Return for each caption one that was written of another photo."""
        if not any(sample.drawn for sample in good):
            return []
        rng = np.random.default_rng((self.seed, good[0].key.epoch, good[0].key.photo, _OTHERS))
        drawn, captions = [sample.drawn for sample in good], [sample.captions for sample in good]
        return draw_other_captions(drawn, captions, self.objective.hard_negatives, rng)

    def _composed(self, good: Sequence[Sample]) -> list[str]:
        composed = []
        for row, sample in enumerate(good):
            others = [good[n].captions[i] for n in range(len(good)) if n != row for i in good[n].drawn]
            for caption, rng in zip(sample.drawn, self._generators(sample, _COMPOSED), strict=True):
                composed.append(compose(sample.captions[caption], others, rng))
        return composed

    def _generators(self, sample: Sample, *purpose: int) -> list[np.random.Generator]:
        key = sample.key
        return [np.random.default_rng((self.seed, key.epoch, key.photo, i, *purpose)) for i in sample.drawn]

    def _words(self, good: Sequence[Sample], captions: Sequence[str]) -> Words:
        of_captions = self._columns([[caption] for caption in captions])
        return Words(of_captions, self._columns([sample.captions + sample.words for sample in good]))

    def _columns(self, captions_of: Sequence[Sequence[str]]) -> Tensor:
        """Return int64 [2, n]: (row, column) of the distinct words of each caption of each row."""
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

    def _mask(self, good: list[Sample], ids: Tensor, masking: Masking) -> MaskedTokens:
        if not len(ids):
            return MaskedTokens(ids, ids, ids, ids)
        generators = [rng for sample in good for rng in self._generators(sample)]
        masked = [mask_words(row, masking, rng) for row, rng in zip(ids.numpy(), generators, strict=True)]
        encoder_ids, encoder_masked, decoder_ids, decoder_masked = (
            torch.from_numpy(np.stack(part)) for part in zip(*masked, strict=True)
        )
        columns = torch.from_numpy(self.vocabulary.lookup(ids.numpy()))
        known = torch.where(columns >= 0, columns, NOT_MASKED)
        return MaskedTokens(
            encoder_ids,
            torch.where(encoder_masked, known, NOT_MASKED),
            decoder_ids,
            torch.where(decoder_masked, known, NOT_MASKED),
        )


def _stack(samples: Sequence[Sample]) -> PhotoBatch:
    indices = torch.tensor([sample.key.photo for sample in samples], dtype=torch.int64)
    pixels = [sample.pixels for sample in samples if sample.pixels is not None]
    begun = [sample.begun for sample in samples if sample.begun is not None]
    if begun:
        return PhotoBatch(indices, begun=torch.stack(begun))
    return PhotoBatch(indices, torch.stack(pixels) if pixels else torch.empty(0, dtype=torch.uint8))


# ---- whole-word masking (Section 3.2) ----


@dataclass(frozen=True)
class Masking:
    """What `mask_words` needs to know."""

    encoder: float  # share of the words that is masked, as is decoder
    decoder: float
    mask_token: int  # id of [MASK]
    special: np.ndarray  # bool [tokenizer ids], entries that are neither masked nor drawn
    continues: np.ndarray  # bool [tokenizer ids], pieces that continue a word, and SentencePiece's signs

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, encoder: float, decoder: float) -> Masking:
        """Return the masking for a tokenizer; ModelError: it has no mask token."""
        if tokenizer.mask_token_id is None:
            raise ModelError(
                "this tokenizer has no mask token, which objective.mlm, image_to_text and text_to_text need"
            )
        entries = tokenizer.get_vocab()
        size = max(entries.values()) + 1
        special, continues = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
        special[tokenizer.all_special_ids] = True
        mark = word_mark(entries)
        for entry, id in entries.items():
            continues[id] = not entry.startswith(mark) if mark in WORD_BEGINS else entry.startswith(CONTINUES)
        return cls(encoder, decoder, tokenizer.mask_token_id, special, continues)


def mask_words(
    ids: np.ndarray, masking: Masking, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mask a caption of token ids int64 [L] for the encoder and for the decoders.

    A share of the words is masked for the encoder, at least one if there is any; the decoders' larger share
    includes these. Of the masked words 80 % become [MASK], 10 % become a random token and 10 % stay (Devlin
    et al., 2019); this is drawn for the encoder and the decoders separately. Returns for the encoder the ids,
    and bool [L], which positions are masked; then the same for the decoders.
    """
    places = np.flatnonzero(~masking.special[ids])
    encoder_ids, decoder_ids = ids.copy(), ids.copy()
    encoder_chosen, decoder_chosen = np.zeros(len(ids), dtype=bool), np.zeros(len(ids), dtype=bool)
    if len(places):
        starts = ~masking.continues[ids[places]]
        starts[0] = True
        word_of = np.cumsum(starts) - 1  # [places]
        rank = rng.permutation(word_of[-1] + 1)  # a word of low rank is masked
        drawn = np.flatnonzero(~masking.special)
        for share, chosen, into in (
            (masking.encoder, encoder_chosen, encoder_ids),
            (masking.decoder, decoder_chosen, decoder_ids),
        ):
            count = max(1, round(share * len(rank))) if share > 0 else 0
            chosen[places] = rank[word_of] < count
            fate = rng.random(len(rank))[word_of]
            becomes_mask = np.zeros(len(ids), dtype=bool)
            becomes_mask[places] = fate < BECOME_MASK
            becomes_random = np.zeros(len(ids), dtype=bool)
            becomes_random[places] = (fate >= BECOME_MASK) & (fate < BECOME_MASK + BECOME_RANDOM)
            into[chosen & becomes_mask] = masking.mask_token
            random_places = np.flatnonzero(chosen & becomes_random)
            into[random_places] = rng.choice(drawn, len(random_places))
    return encoder_ids, encoder_chosen, decoder_ids, decoder_chosen
