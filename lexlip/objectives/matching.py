"""Whether a caption is of a photo: the loss of cross-encoders."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def matching(positive: Tensor, negative: Tensor) -> Tensor:
    """Binary cross-entropy of log-odds, [N] of pairs and [N] of non-pairs, summed; a scalar."""
    return F.softplus(-positive).sum() + F.softplus(negative).sum()
