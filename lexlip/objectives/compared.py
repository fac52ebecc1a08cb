"""What the losses over a whole batch see of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from lexlip.config import ObjectiveConfig
from lexlip.registry import Metric

if TYPE_CHECKING:
    from torch import Tensor


class Everyone(NamedTuple):
    """The vectors of all processes.

    Attributes:
        images: [B', V], with gradient.
        texts: [T', V], with gradient.
        owners: int64 [T'], the row of each text's image.
        rows: the texts of this process.
    """

    images: Tensor
    texts: Tensor
    owners: Tensor
    rows: slice


class Keys(NamedTuple):
    """The key encoders' vectors of this process's photos and texts, and the queues of earlier ones.

    Attributes:
        images: [B, V].
        texts: [T, V].
        image_queue: unit vectors [q, V], and int64 [q], the photo that each belongs to.
        text_queue: the same of texts.
    """

    images: Tensor
    texts: Tensor
    image_queue: tuple[Tensor, Tensor]
    text_queue: tuple[Tensor, Tensor]


class TaughtScores(NamedTuple):
    """A teacher's scores of some captions.

    Attributes:
        to_images: [t, B], of each caption with all photos.
        to_texts: [t, T], of each caption's photo with all captions.
    """

    to_images: Tensor
    to_texts: Tensor


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One step's photos and texts in one process, and how to reach those of the others.

    Each loss computes this process's share: the shares of all processes add up to the loss that one process
    would have with the whole batch.

    Attributes:
        config: the objective.
        metric: how two vectors are compared.
        progress: share of the run that is done, for warm-ups.
        images: vectors [B, V].
        texts: vectors [T, V].
        owners: int64 [T], the row of each text's image.
        photos: int64 [B], the index of each photo in its source.
        image_logits: raw output [B, V] before it became a vector.
        composed: vectors of half-changed photos [B, V] and texts [T, V]; None without composed negatives.
        keys: None without queues.
        bags: bags of words [T, V] of the texts; None without anchors.
        word_counts: [B, V], how many of a photo's captions contain each word; None without anchors.
        taught: a teacher's scores of the texts; None without one.
        total_images, total_texts: numbers over all processes.
        processes: how many there are.
        gather: returns the rows of all processes, with gradient, and the number of this process's first row.
    """

    config: ObjectiveConfig
    metric: Metric
    progress: float
    images: Tensor
    texts: Tensor
    owners: Tensor
    photos: Tensor
    image_logits: Tensor
    composed: tuple[Tensor, Tensor] | None = None
    keys: Keys | None = None
    bags: Tensor | None = None
    word_counts: Tensor | None = None
    taught: TaughtScores | None = None
    total_images: float
    total_texts: float
    processes: int
    gather: Callable[[Tensor], tuple[Tensor, int]]

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
