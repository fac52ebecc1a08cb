import pytest
import torch

from lexlip.objectives.flops import flops, quadratic_warmup
from tests.objectives.some_vectors import vectors
from tests.reference.losses import (
    naive_flops,
)


def test_flops() -> None:
    batch = vectors(5, 3)
    assert flops(batch.mean(dim=0)).item() == pytest.approx(naive_flops(batch), rel=1e-5)
    spread, piled = torch.eye(4), torch.eye(4)[[0, 0, 0, 0]]
    assert flops(spread.mean(dim=0)).item() == pytest.approx(4 * (1 / 4) ** 2)
    assert flops(piled.mean(dim=0)).item() == pytest.approx(1)


def test_quadratic_warmup() -> None:
    found = [quadratic_warmup(progress, 0.4) for progress in (0, 0.1, 0.2, 0.4, 0.7, 1)]
    assert found == pytest.approx([0, 1 / 16, 1 / 4, 1, 1, 1])
    assert quadratic_warmup(0, 0) == 1
