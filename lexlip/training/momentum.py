"""Key encoders that follow the model, and queues of their vectors (Section 3.3; MoCo, He et al., 2020)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from lexlip.objectives.losses import compared_as
from lexlip.registry import Metric


@torch.no_grad()
def follow(keys: nn.Module, model: nn.Module, momentum: float) -> None:
    """Move key encoders after the model: key = m * key + (1 - m) * weight (Eq. 19)."""
    torch._foreach_lerp_(list(keys.parameters()), list(model.parameters()), 1 - momentum)
    for key, buffer in zip(keys.buffers(), model.buffers(), strict=True):
        key.copy_(buffer)


class KeyQueue(nn.Module):
    """The last Q = `length` keys of one side, vectors [V], first in, first out; checkpoints hold it.

    They are held at unit length if they are compared by their cosine.
    """

    keys: Tensor
    images: Tensor
    count: Tensor

    def __init__(
        self, length: int, width: int, dtype: torch.dtype = torch.bfloat16, metric: Metric = "cosine"
    ) -> None:
        super().__init__()
        self.metric = metric
        self.register_buffer("keys", torch.zeros(length, width, dtype=dtype))  # [Q, V]
        self.register_buffer("images", torch.full((length,), -1))  # int64 [Q], the photo of each key
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))  # keys ever enqueued
        self._enqueued: int | None = 0  # the same, known without waiting for a GPU; None after loading

    def _load_from_state_dict(self, *arguments: Any) -> None:
        super()._load_from_state_dict(*arguments)  # type: ignore[no-untyped-call]
        self._enqueued = None

    @property
    def enqueued(self) -> int:
        if self._enqueued is None:
            self._enqueued = int(self.count)
        return self._enqueued

    @property
    def filled(self) -> int:
        return min(self.enqueued, len(self.keys))

    def contents(self) -> tuple[Tensor, Tensor]:
        """Return the keys it holds, [q, V], and their photos, int64 [q], in no particular order."""
        return self.keys[: self.filled], self.images[: self.filled]

    @torch.no_grad()
    def enqueue(self, keys: Tensor, images: Tensor) -> None:
        """Replace the oldest keys by keys [N, V] of photos int64 [N]; of more than Q the last ones count."""
        length, start = len(self.keys), self.enqueued
        self.count += len(keys)
        self._enqueued = start + len(keys)
        kept = slice(max(0, len(keys) - length), None)
        places = torch.arange(start, start + len(keys), device=keys.device)[kept] % length
        self.keys[places] = compared_as(keys[kept], self.metric).to(self.keys.dtype)
        self.images[places] = images[kept]
