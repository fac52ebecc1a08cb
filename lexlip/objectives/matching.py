"""Whether a caption describes a photo: the loss of cross-encoders."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def matching(positive: Tensor, negative: Tensor) -> Tensor:
    """Return the binary cross-entropy, summed, of log-odds [N] of pairs and [N] of non-pairs."""
    return F.softplus(-positive).sum() + F.softplus(negative).sum()
