"""Vectors for the tests of objectives."""

import torch
from torch import Tensor

B, V = 3, 8
OWNERS = {
    "one caption a photo": [0, 1, 2],
    "several captions": [0, 0, 1, 2, 2, 2],
    "in any order": [2, 0, 1, 0],
    "a photo without captions": [0, 2, 2],
}


def vectors(rows: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(rows, V, generator=generator).requires_grad_()
