from typing import Any

import pytest
import torch
import torch.nn.functional as F

from lexlip.objectives.losses import (
    align,
    contrastive,
    flops,
    hardest_triplet,
    momentum_contrastive,
    truncate,
)
from tests.objectives.some_vectors import OWNERS, B, V, check, vectors
from tests.reference.losses import (
    dot,
    naive_contrastive,
    naive_hardest_triplet,
    naive_momentum_contrastive,
    naive_truncate,
)

all_owners = pytest.mark.parametrize("owners", OWNERS.values(), ids=OWNERS.keys())


def parts(owners: list[int]) -> list[slice]:
    return [slice(0, 1), slice(1, 1), slice(1, len(owners))]


@all_owners
@pytest.mark.parametrize("temperature", [0.05, 0.5])
@pytest.mark.parametrize(
    ("given", "plainly"),
    [
        ({}, {}),
        ({"same_image_negatives": True}, {"same_image_negatives": True}),
        ({"metric": "dot"}, {"score": dot}),
    ],
    ids=["", "same image negatives", "dot products"],
)
def test_contrastive(
    owners: list[int], temperature: float, given: dict[str, Any], plainly: dict[str, Any]
) -> None:
    pair = images, texts = vectors(B, 1), vectors(len(owners), 2)
    of_text = torch.tensor(owners)
    shares = [contrastive(*pair, of_text, temperature, rows=rows, **given) for rows in parts(owners)]
    plain = naive_contrastive(images, texts, owners, temperature, **plainly)
    check(contrastive(*pair, of_text, temperature, **given), plain, pair, shares)


@all_owners
def test_composed_negatives_are_in_all_denominators(owners: list[int]) -> None:
    pair, of_text = (vectors(B, 1), vectors(len(owners), 2)), torch.tensor(owners)
    composed = vectors(B, 3), vectors(len(owners), 4)
    plain = naive_contrastive(*pair, owners, 0.2, composed=composed)
    whole, *shares = (
        contrastive(*pair, of_text, 0.2, rows=rows, composed=composed) for rows in (None, *parts(owners))
    )
    check(whole, plain, (*pair, *composed), shares)


def test_contrastive_is_blind_to_length() -> None:
    images, texts, owners = vectors(B, 1), vectors(4, 2), torch.tensor([0, 1, 1, 2])
    longer = contrastive(images * 7, texts * torch.tensor([[1.0], [2], [3], [4]]), owners, 0.05)
    torch.testing.assert_close(longer, contrastive(images, texts, owners, 0.05))


def test_captions_of_the_same_photo_are_no_negatives() -> None:
    """The first photo's second caption may score as it likes in the other direction's denominator."""
    images, texts = torch.eye(2, V), torch.eye(2, V)[[0, 0, 1]]
    assert contrastive(images, texts, torch.tensor([0, 0, 1]), 0.05) < 1e-6
    assert contrastive(images, texts, torch.tensor([0, 1, 1]), 0.05) > 1
    assert hardest_triplet(images, texts, torch.tensor([0, 0, 1]), 0.1) == 0
    assert hardest_triplet(images, texts, torch.tensor([0, 1, 1]), 0.1) > 0.4
    assert hardest_triplet(images[:1], texts[:2], torch.tensor([0, 0]), 0.1) == 0  # there is no negative


@pytest.mark.parametrize("queue_length", [0, 1, 7])
@pytest.mark.parametrize("negatives", [False, True])
@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_momentum_contrastive(queue_length: int, negatives: bool, temperature: float) -> None:
    queries, keys = vectors(4, 1), vectors(4, 2).detach()
    queue = F.normalize(vectors(queue_length, 3).detach(), dim=1)
    images, of_queue = [5, 5, 8, 9], [5, 8, 3, 8, 1, 5, 0][:queue_length]
    same = None if negatives else torch.tensor(images)[:, None] == torch.tensor(of_queue).long()[None, :]
    loss = momentum_contrastive(queries, keys, queue, same, temperature)
    plain = naive_momentum_contrastive(queries, keys, queue, images, of_queue, temperature, negatives)
    check(loss, plain, [queries])
    assert queue_length or loss == 0  # there is nothing to tell apart


@pytest.mark.parametrize("negatives", [False, True])
def test_momentum_contrastive_by_dot_product(negatives: bool) -> None:
    """Eq. 21-22 as they are written: neither the query nor its keys are made unit vectors."""
    queries, keys, queue = vectors(4, 1), vectors(4, 2).detach(), 3 * vectors(3, 3).detach()
    images, of_queue = [5, 5, 8, 9], [5, 8, 3]
    same = None if negatives else torch.tensor(images)[:, None] == torch.tensor(of_queue)[None, :]
    loss = momentum_contrastive(queries, keys, queue, same, 0.5, "dot")
    check(
        loss,
        naive_momentum_contrastive(queries, keys, queue, images, of_queue, 0.5, negatives, dot),
        [queries],
    )


@all_owners
def test_hardest_triplet_by_dot_product(owners: list[int]) -> None:
    pair, of_text = (vectors(B, 1), vectors(len(owners), 2)), torch.tensor(owners)
    plain = naive_hardest_triplet(*pair, owners, 0.3, dot)
    check(hardest_triplet(*pair, of_text, 0.3, metric="dot"), plain, pair)


@all_owners
@pytest.mark.parametrize("margin", [0.0, 0.1, 2.0])
def test_hardest_triplet(owners: list[int], margin: float) -> None:
    pair, of_text = (vectors(B, 1), vectors(len(owners), 2)), torch.tensor(owners)
    shares = [hardest_triplet(*pair, of_text, margin, rows) for rows in (slice(0, 2), slice(2, None))]
    plain = naive_hardest_triplet(*pair, owners, margin)
    check(hardest_triplet(*pair, of_text, margin), plain, pair, shares)


@pytest.mark.parametrize("k", [1, 3, V - 1, V, V + 5])
def test_truncate(k: int) -> None:
    documents, weights = vectors(5, 1), torch.linspace(-1, 2, V)
    found, plain = truncate(documents, k), naive_truncate(documents, k)
    assert torch.equal(found, plain)
    assert (found > 0).sum(dim=1).tolist() == [min(k, V)] * 5
    gradients = [torch.autograd.grad((cut.square() * weights).sum(), documents)[0] for cut in (found, plain)]
    assert torch.equal(*gradients)
    assert ((gradients[0] != 0).sum(dim=1) == min(k, V)).all()  # what was cut off gets none


def test_vectors_without_terms_have_finite_gradients() -> None:
    images, texts = vectors(B, 1), vectors(B, 2)
    with torch.no_grad():
        images[0], texts[1] = 0, 0
    loss = contrastive(torch.relu(images), torch.relu(texts), torch.arange(B), 0.05)
    loss = loss + align(torch.relu(texts), torch.relu(images)) + flops(images.mean(dim=0))
    assert loss.isfinite()
    for gradient in torch.autograd.grad(loss, (images, texts)):
        assert gradient.isfinite().all()
        assert gradient.abs().max() < 1e3
