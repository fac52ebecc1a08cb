"""Documents cut to their heaviest words, as an index stores them."""

from __future__ import annotations

import torch
from torch import Tensor


def truncate(vectors: Tensor, k: int) -> Tensor:
    """Return vectors [B, V] with all but the k largest entries of each row set to 0.

    The gradient reaches the k entries that are kept.
    """
    if k >= vectors.shape[1]:
        return vectors
    values, columns = vectors.topk(k, dim=1)
    return torch.zeros_like(vectors).scatter(1, columns, values)
