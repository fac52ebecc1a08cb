"""FLOPS regularisation (Eq. 17): few active words, spread evenly over the vocabulary."""

from __future__ import annotations

from torch import Tensor


def flops(mean: Tensor) -> Tensor:
    """Sum over the vocabulary of (mean over the batch of p_v)² (Eq. 17), a scalar; `mean` is [V]."""
    return mean.square().sum()


def quadratic_warmup(progress: float, length: float) -> float:
    """Factor of the FLOPS weight: (progress / length)² up to 1 (Formal et al., SPLADE, 2021).

    Args:
        progress: share of the run that is done, in [0, 1].
        length: share of the run over which the factor grows; 0 is constant 1.
    """
    return min(1.0, progress / length) ** 2 if length > 0 else 1.0
