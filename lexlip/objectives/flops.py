"""FLOPS regularisation (Eq. 17): few active words, spread evenly over the vocabulary.

Eq. 17 weights the mean of both sides, so the paper's 0.002 is a weight of 0.001 for each side.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from lexlip.objectives.compared import Compared


def flops(mean: Tensor) -> Tensor:
    """Return the sum over the vocabulary of (mean over the batch of p_v)² (Eq. 17); `mean` is [V]."""
    return mean.square().sum()


def quadratic_warmup(progress: float, length: float) -> float:
    """Return the factor of the FLOPS weight: (progress / length)² up to 1 (SPLADE, Formal et al., 2021).

    Args:
        progress: share of the run that is done, in [0, 1].
        length: share of the run over which the factor grows; 0 gives a constant 1.
    """
    return min(1.0, progress / length) ** 2 if length > 0 else 1.0


def image_share(compared: Compared) -> Tensor:
    """Return a process's share of the images' FLOPS."""
    return _share(compared, compared.images, compared.total_images)


def text_share(compared: Compared) -> Tensor:
    """Return a process's share of the texts' FLOPS."""
    return _share(compared, compared.texts, compared.total_texts)


def warmup(compared: Compared) -> float:
    """Return the factor of both weights at this point of the run."""
    return quadratic_warmup(compared.progress, compared.config.flops_warmup)


def _share(compared: Compared, vectors: Tensor, total: float) -> Tensor:
    if compared.config.flops_unit:
        vectors = F.normalize(vectors, dim=1)
    sums = compared.gather(vectors.sum(dim=0, keepdim=True))[0]
    return flops(sums.sum(dim=0) / total) / compared.processes
