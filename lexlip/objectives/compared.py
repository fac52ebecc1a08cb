"""What the losses over a whole batch see of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from lexlip.config import ObjectiveConfig
from lexlip.registry import Metric


class Everyone(NamedTuple):
    """The vectors of all processes, with their gradient."""

    images: Tensor  # [B', V]
    texts: Tensor  # [T', V]
    owners: Tensor  # int64 [T'], the row of each text's image
    rows: slice  # the texts of this process


class Keys(NamedTuple):
    """The key encoders' vectors of this process's photos and texts, and the queues of earlier ones."""

    images: Tensor  # [B, V]
    texts: Tensor  # [T, V]
    image_queue: tuple[Tensor, Tensor]  # unit vectors [q, V], and int64 [q], the photo that each belongs to
    text_queue: tuple[Tensor, Tensor]  # the same of texts


class TaughtScores(NamedTuple):
    """A teacher's scores of some captions."""

    to_images: Tensor  # [t, B], of each caption with all photos
    to_texts: Tensor  # [t, T], of each caption's photo with all captions


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One step's photos and texts in one process, and how to reach those of the others.

    Each loss computes this process's share: the shares of all processes add up to the loss that one process
    would have with the whole batch.
    """

    config: ObjectiveConfig
    metric: Metric
    progress: float  # share of the run that is done, for warm-ups
    images: Tensor  # vectors [B, V]
    texts: Tensor  # vectors [T, V]
    owners: Tensor  # int64 [T], the row of each text's image
    photos: Tensor  # int64 [B], the index of each photo in its source
    image_logits: Tensor  # raw output [B, V] before it became a vector
    composed: tuple[Tensor, Tensor] | None = None  # vectors of half-changed photos [B, V] and texts [T, V]
    keys: Keys | None = None  # None without queues
    bags: Tensor | None = None  # bags of words [T, V] of the texts; None without anchors
    word_counts: Tensor | None = None  # [B, V], how many of a photo's captions contain each word
    taught: TaughtScores | None = None
    total_images: float  # over all processes, as are total_texts
    total_texts: float
    processes: int  # how many there are
    gather: Callable[[Tensor], tuple[Tensor, int]]  # see `lexlip.training.distributed.Processes.gather`

    @cached_property
    def everyone(self) -> Everyone:
        """The vectors of all processes; gathered once, and only if a loss asks for them."""
        images, first_image = self.gather(self.images)
        texts, first_text = self.gather(self.texts)
        owners, _ = self.gather(self.owners + first_image)
        return Everyone(images, texts, owners, slice(first_text, first_text + len(self.texts)))

    @property
    def text_share(self) -> float:
        """This process's share of the texts."""
        return len(self.texts) / self.total_texts

    @property
    def image_share(self) -> float:
        """This process's share of the photos."""
        return len(self.images) / self.total_images


def truncate(vectors: Tensor, k: int) -> Tensor:
    """Return vectors [B, V] with all but the k largest entries of each row set to 0, as an index has them.

    The gradient reaches the k entries that are kept.
    """
    if k >= vectors.shape[1]:
        return vectors
    values, columns = vectors.topk(k, dim=1)
    return torch.zeros_like(vectors).scatter(1, columns, values)
