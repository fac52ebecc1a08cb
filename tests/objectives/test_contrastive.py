import pytest
import torch

from lexlip.objectives.anchor import align
from lexlip.objectives.contrastive import contrastive, momentum_contrastive
from lexlip.objectives.flops import flops
from tests.objectives.some_vectors import OWNERS, B, V, vectors
from tests.reference.losses import (
    naive_composed_contrastive,
    naive_contrastive,
    naive_dot_contrastive,
    naive_momentum_contrastive,
)


@pytest.mark.parametrize("owners", OWNERS.values(), ids=OWNERS.keys())
@pytest.mark.parametrize("temperature", [0.05, 0.5])
@pytest.mark.parametrize("negatives", [False, True], ids=["", "same image negatives"])
def test_contrastive_and_its_gradient(owners: list[int], temperature: float, negatives: bool) -> None:
    images, texts = vectors(B, 1), vectors(len(owners), 2)
    loss = contrastive(images, texts, torch.tensor(owners), temperature, negatives)
    found = torch.autograd.grad(loss, (images, texts))
    plain = naive_contrastive(images, texts, owners, temperature, negatives)
    expected = torch.autograd.grad(plain, (images, texts))
    torch.testing.assert_close(loss, plain, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("owners", OWNERS.values(), ids=OWNERS.keys())
@pytest.mark.parametrize("negatives", [False, True])
def test_shares_of_the_contrastive_loss_add_up(owners: list[int], negatives: bool) -> None:
    images, texts, of_text = vectors(B, 1), vectors(len(owners), 2), torch.tensor(owners)
    whole = contrastive(images, texts, of_text, 0.1, negatives)
    parts = [slice(0, 1), slice(1, 1), slice(1, len(owners))]
    shares = [contrastive(images, texts, of_text, 0.1, negatives, rows) for rows in parts]
    torch.testing.assert_close(sum(shares), whole)
    found = torch.autograd.grad(sum(shares), (images, texts), retain_graph=True)
    torch.testing.assert_close(found, torch.autograd.grad(whole, (images, texts)))


@pytest.mark.parametrize("owners", OWNERS.values(), ids=OWNERS.keys())
def test_contrastive_of_dot_products(owners: list[int]) -> None:
    images, texts = vectors(B, 1), vectors(len(owners), 2)
    loss = contrastive(images, texts, torch.tensor(owners), 0.7, metric="dot")
    plain = naive_dot_contrastive(images, texts, owners, 0.7)
    torch.testing.assert_close(loss, plain, rtol=1e-4, atol=1e-6)
    found, expected = (torch.autograd.grad(value, (images, texts)) for value in (loss, plain))
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("owners", OWNERS.values(), ids=OWNERS.keys())
def test_composed_negatives_are_in_all_denominators(owners: list[int]) -> None:
    images, texts = vectors(B, 1), vectors(len(owners), 2)
    composed = vectors(B, 3), vectors(len(owners), 4)
    of_text = torch.tensor(owners)
    loss = contrastive(images, texts, of_text, 0.2, composed=composed)
    plain = naive_composed_contrastive(images, texts, *composed, owners, 0.2)
    torch.testing.assert_close(loss, plain, rtol=1e-4, atol=1e-6)
    inputs = (images, texts, *composed)
    found = torch.autograd.grad(loss, inputs, retain_graph=True)
    torch.testing.assert_close(found, torch.autograd.grad(plain, inputs), rtol=1e-3, atol=1e-5)
    parts = [slice(0, 1), slice(1, len(owners))]
    shares = [contrastive(images, texts, of_text, 0.2, rows=rows, composed=composed) for rows in parts]
    torch.testing.assert_close(sum(shares), loss)


def test_contrastive_is_blind_to_length() -> None:
    images, texts, owners = vectors(B, 1), vectors(4, 2), torch.tensor([0, 1, 1, 2])
    longer = contrastive(images * 7, texts * torch.tensor([[1.0], [2], [3], [4]]), owners, 0.05)
    torch.testing.assert_close(longer, contrastive(images, texts, owners, 0.05))


def test_captions_of_the_same_photo_are_no_negatives() -> None:
    """The first photo's second caption may score as it likes in the other direction's denominator."""
    images = torch.eye(2, V)
    texts = torch.stack([images[0], images[0], images[1]])
    owners = torch.tensor([0, 0, 1])
    assert contrastive(images, texts, owners, 0.05) < 1e-6
    wrong = contrastive(images, texts, torch.tensor([0, 1, 1]), 0.05)
    assert wrong > 1


@pytest.mark.parametrize("queue_length", [0, 1, 7])
@pytest.mark.parametrize("negatives", [False, True])
@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_momentum_contrastive_and_its_gradient(
    queue_length: int, negatives: bool, temperature: float
) -> None:
    queries, keys = vectors(4, 1), vectors(4, 2).detach()
    queue = torch.nn.functional.normalize(vectors(queue_length, 3).detach(), dim=1)
    images, of_queue = [5, 5, 8, 9], [5, 8, 3, 8, 1, 5, 0][:queue_length]
    same = None if negatives else torch.tensor(images)[:, None] == torch.tensor(of_queue).long()[None, :]
    loss = momentum_contrastive(queries, keys, queue, same, temperature)
    plain = naive_momentum_contrastive(queries, keys, queue, images, of_queue, temperature, negatives)
    torch.testing.assert_close(loss, plain, rtol=1e-4, atol=1e-6)
    found, expected = (torch.autograd.grad(value, queries) for value in (loss, plain))
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)


def test_without_a_queue_there_is_nothing_to_tell_apart() -> None:
    loss = momentum_contrastive(vectors(3, 1), vectors(3, 2), torch.zeros(0, V), None, 0.05)
    assert loss.item() == 0


def test_vectors_without_terms_have_finite_gradients() -> None:
    images, texts = vectors(B, 1), vectors(B, 2)
    with torch.no_grad():
        images[0], texts[1] = 0, 0
    loss = contrastive(torch.relu(images), torch.relu(texts), torch.arange(B), 0.05)
    loss = loss + align(torch.relu(texts), torch.relu(images)) + flops(images.mean(dim=0))
    loss.backward()
    assert loss.isfinite()
    for tensor in (images, texts):
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()
        assert tensor.grad.abs().max() < 1e3
