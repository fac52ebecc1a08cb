"""The losses over a whole batch, and their weighted sum.

To add one: a file in this folder, an entry in LOSSES, and its weight in `lexlip.config.ObjectiveConfig`.
Losses of single captions (masked words, matching) are in `lexlip.training.method`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lexlip.objectives import anchor, contrastive, distillation, flops, triplet
from lexlip.objectives.compared import Compared

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class BatchLoss:
    """A loss over the batch of all processes.

    Attributes:
        name: its weight's key in the config's objective, under which it is logged.
        share: computes this process's share of it, a scalar.
        factor: of the weight at this point of the run.
    """

    name: str
    share: Callable[[Compared], Tensor]
    factor: Callable[[Compared], float] = lambda compared: 1.0

    def weight(self, compared: Compared) -> float:
        """Return the weight of the loss in the config."""
        weight: float = getattr(compared.config, self.name)
        return weight


class _Truncated(BatchLoss):
    """The contrastive loss of truncated documents, whose weight is relative to that of whole ones."""

    def weight(self, compared: Compared) -> float:
        config = compared.config
        return config.contrastive * config.topk_contrastive if config.topk else 0.0


LOSSES: tuple[BatchLoss, ...] = (
    BatchLoss("contrastive", contrastive.contrastive_share),  # Eq. 15-16, 20-22
    _Truncated("topk_contrastive", contrastive.truncated_share),
    BatchLoss("distillation", distillation.distillation_share),
    BatchLoss("triplet", triplet.triplet_share),
    BatchLoss("flops_image", flops.image_share, flops.warmup),  # Eq. 17
    BatchLoss("flops_text", flops.text_share, flops.warmup),
    BatchLoss("anchor_contrastive", anchor.contrastive_share),
    BatchLoss("anchor_align", anchor.align_share),
    BatchLoss("anchor_words", anchor.words_share),
)


def batch_loss(compared: Compared) -> tuple[Tensor, dict[str, Tensor]]:
    """Return this process's share of the weighted sum of all losses over the batch (Eq. 18, 23).

    Returns:
        The weighted sum, and its unweighted parts by name, for the log.
    """
    parts: dict[str, Tensor] = {}
    total = compared.images.new_zeros(())
    for loss in LOSSES:
        weight = loss.weight(compared)
        if weight > 0:
            parts[loss.name] = loss.share(compared)
            total = total + weight * loss.factor(compared) * parts[loss.name]
    return total, parts
