"""Max pooling with the whole [B, P, V] tensor."""

import torch
from torch import Tensor


def naive_max_pooled_logits(hidden: Tensor, decoder: Tensor, mask: Tensor) -> Tensor:
    """[B, V] of hidden [B, P, D], decoder [V, D], mask bool [B, P]."""
    logits = torch.einsum("bpd,vd->bpv", hidden, decoder)
    return logits.masked_fill(~mask[:, :, None], float("-inf")).amax(dim=1)


def naive_sparse_vector(hidden: Tensor, decoder: Tensor, bias: Tensor, mask: Tensor) -> Tensor:
    """Eq. 3 to the letter: relu and log1p of every position's logits, and then the maximum."""
    logits = torch.einsum("bpd,vd->bpv", hidden, decoder) + bias
    weights = torch.log(1 + torch.relu(logits))
    return (weights * mask[:, :, None]).amax(dim=1)
