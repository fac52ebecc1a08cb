"""Vectors for the tests of objectives, and how a loss is compared with a plain one."""

from collections.abc import Sequence

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


def check(loss: Tensor, plain: Tensor, inputs: Sequence[Tensor], shares: Sequence[Tensor] = ()) -> None:
    """The loss and its gradient are those of the plain one; so are those of its shares together."""
    for found in (loss, sum(shares)) if shares else (loss,):
        torch.testing.assert_close(found, plain, rtol=1e-4, atol=1e-6)
        ours, theirs = (torch.autograd.grad(value, inputs, retain_graph=True) for value in (found, plain))
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)
