"""Training for the index: documents as they will be stored, cut to their heaviest terms."""

from __future__ import annotations

import torch
from torch import Tensor


def truncate(vectors: Tensor, k: int) -> Tensor:
    """[B, V] vectors with all but the k largest entries of each row set to 0; the gradient reaches those."""
    if k >= vectors.shape[1]:
        return vectors
    values, columns = vectors.topk(k, dim=1)
    return torch.zeros_like(vectors).scatter(1, columns, values)
