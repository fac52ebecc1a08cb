"""How far a prediction of a masked region, or patch, is from what was masked (LightningDOT's SMRM).

r is what a detector says of a masked region m, and f(h_m + z_0) what is predicted of it, from its state and
the caption's vector:

    MRFR     |f(h_m + z_0) - r|^2, with the features r, here a mean over their numbers
    MRC-kl   KL(r || softmax f(h_m + z_0)), with the probabilities r of the detector's classes

Shapes: M masked regions, d numbers of a region, c classes.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def regression(predicted: Tensor, features: Tensor) -> Tensor:
    """Return the mean squared difference of each region, float32 [M], given both [M, d] (MRFR)."""
    return (predicted - features).square().mean(dim=1)


def class_divergence(logits: Tensor, probabilities: Tensor) -> Tensor:
    """Return the divergence of each region, float32 [M], given both [M, c] (MRC-kl)."""
    return F.kl_div(logits.log_softmax(dim=1), probabilities, reduction="none").sum(dim=1)
