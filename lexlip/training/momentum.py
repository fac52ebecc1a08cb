"""Momentum contrast (Eq. 19-23; He et al., 2020): key encoders that follow slowly, queues of their keys."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@torch.no_grad()
def follow(keys: nn.Module, model: nn.Module, momentum: float) -> None:
    """Exponential moving average of the weights: key = m * key + (1 - m) * weight (Eq. 19)."""
    torch._foreach_lerp_(list(keys.parameters()), list(model.parameters()), 1 - momentum)
    for key, buffer in zip(keys.buffers(), model.buffers(), strict=True):
        key.copy_(buffer)


class KeyQueue(nn.Module):
    """The last Q keys of one modality, unit vectors, first in first out; empty at first.

    Its buffers are part of a checkpoint.

    Args:
        length: Q.
        width: V, or D of dense vectors.
        dtype: of the keys.
    """

    keys: Tensor
    images: Tensor
    count: Tensor

    def __init__(self, length: int, width: int, dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(length, width, dtype=dtype))  # [Q, V]
        self.register_buffer("images", torch.full((length,), -1))  # int64 [Q], which image a key belongs to
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))  # keys ever enqueued

    @property
    def filled(self) -> int:
        """How many keys it holds."""
        return min(int(self.count), len(self.keys))

    def contents(self) -> tuple[Tensor, Tensor]:
        """The keys it holds, [q, V], and their images, int64 [q], in no order."""
        return self.keys[: self.filled], self.images[: self.filled]

    @torch.no_grad()
    def enqueue(self, keys: Tensor, images: Tensor) -> None:
        """Put keys [N, V] of images int64 [N] in the place of the oldest; of more than Q the last count."""
        length, start = len(self.keys), int(self.count)
        self.count += len(keys)
        kept = slice(max(0, len(keys) - length), None)
        places = torch.arange(start, start + len(keys), device=keys.device)[kept] % length
        self.keys[places] = F.normalize(keys[kept], dim=1).to(self.keys.dtype)
        self.images[places] = images[kept]
