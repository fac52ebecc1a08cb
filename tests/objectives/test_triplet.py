import pytest
import torch

from lexlip.objectives.triplet import hardest_triplet
from tests.objectives.some_vectors import OWNERS, B, V, vectors
from tests.reference.losses import (
    naive_hardest_triplet,
)


@pytest.mark.parametrize("owners", OWNERS.values(), ids=OWNERS.keys())
@pytest.mark.parametrize("margin", [0.0, 0.1, 2.0])
def test_hardest_triplet_and_its_gradient(owners: list[int], margin: float) -> None:
    images, texts, of_text = vectors(B, 1), vectors(len(owners), 2), torch.tensor(owners)
    loss = hardest_triplet(images, texts, of_text, margin)
    plain = naive_hardest_triplet(images, texts, owners, margin)
    torch.testing.assert_close(loss, plain, rtol=1e-4, atol=1e-6)
    found = torch.autograd.grad(loss, (images, texts), retain_graph=True)
    torch.testing.assert_close(found, torch.autograd.grad(plain, (images, texts)), rtol=1e-3, atol=1e-5)
    shares = [hardest_triplet(images, texts, of_text, margin, rows) for rows in (slice(0, 2), slice(2, None))]
    torch.testing.assert_close(sum(shares), loss)


def test_captions_of_the_same_photo_make_no_triplet() -> None:
    images, texts = torch.eye(2, V), torch.eye(2, V)[[0, 0, 1]]
    assert hardest_triplet(images, texts, torch.tensor([0, 0, 1]), 0.1) == 0
    assert hardest_triplet(images, texts, torch.tensor([0, 1, 1]), 0.1) > 0.4
    alone = hardest_triplet(images[:1], texts[:2], torch.tensor([0, 0]), 0.1)
    assert alone == 0  # there is no negative
