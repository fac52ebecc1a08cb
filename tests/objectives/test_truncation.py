import pytest
import torch

from lexlip.objectives.truncation import truncate
from tests.objectives.some_vectors import V, vectors
from tests.reference.losses import (
    naive_truncate,
)


@pytest.mark.parametrize("k", [1, 3, V - 1, V, V + 5])
def test_truncate_and_its_gradient(k: int) -> None:
    documents, weights = vectors(5, 1), torch.linspace(-1, 2, V)
    found, plain = truncate(documents, k), naive_truncate(documents, k)
    assert torch.equal(found, plain)
    assert (found > 0).sum(dim=1).tolist() == [min(k, V)] * 5
    gradients = [torch.autograd.grad((cut.square() * weights).sum(), documents)[0] for cut in (found, plain)]
    assert torch.equal(*gradients)
    assert ((gradients[0] != 0).sum(dim=1) == min(k, V)).all()  # what was cut off gets none
