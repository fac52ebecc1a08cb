import pytest
import torch
from torch import Tensor

from lexlip.config import ObjectiveConfig
from lexlip.objectives.anchor import align, predict_words
from lexlip.objectives.contrastive import contrastive
from lexlip.objectives.flops import flops, quadratic_warmup
from lexlip.objectives.total import total_loss
from tests.reference.losses import naive_align, naive_contrastive, naive_flops, naive_predict_words

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


@pytest.mark.parametrize("owners", OWNERS.values(), ids=OWNERS.keys())
@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_contrastive_and_its_gradient(owners: list[int], temperature: float) -> None:
    images, texts = vectors(B, 1), vectors(len(owners), 2)
    loss = contrastive(images, texts, torch.tensor(owners), temperature)
    found = torch.autograd.grad(loss, (images, texts))
    plain = naive_contrastive(images, texts, owners, temperature)
    expected = torch.autograd.grad(plain, (images, texts))
    torch.testing.assert_close(loss, plain, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)


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


def test_vectors_without_terms_have_finite_gradients() -> None:
    images, texts = vectors(B, 1), vectors(B, 2)
    with torch.no_grad():
        images[0], texts[1] = 0, 0
    loss = contrastive(torch.relu(images), torch.relu(texts), torch.arange(B), 0.05)
    loss = loss + align(torch.relu(texts), torch.relu(images)) + flops(images)
    loss.backward()
    assert loss.isfinite()
    for tensor in (images, texts):
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()
        assert tensor.grad.abs().max() < 1e3


def test_flops() -> None:
    batch = vectors(5, 3)
    assert flops(batch).item() == pytest.approx(naive_flops(batch), rel=1e-5)
    spread, piled = torch.eye(4), torch.eye(4)[[0, 0, 0, 0]]
    assert flops(spread).item() == pytest.approx(4 * (1 / 4) ** 2)
    assert flops(piled).item() == pytest.approx(1)


def test_quadratic_warmup() -> None:
    found = [quadratic_warmup(progress, 0.4) for progress in (0, 0.1, 0.2, 0.4, 0.7, 1)]
    assert found == pytest.approx([0, 1 / 16, 1 / 4, 1, 1, 1])
    assert quadratic_warmup(0, 0) == 1


def test_align() -> None:
    texts, bags = vectors(4, 4), vectors(4, 5)
    torch.testing.assert_close(align(texts, bags), naive_align(texts, bags))
    torch.testing.assert_close(align(texts, 3 * texts), torch.tensor(0.0), atol=1e-6, rtol=0)


def test_predict_words() -> None:
    logits = 4 * vectors(3, 6)
    counts = torch.tensor([[2.0, 0, 1, 0, 0, 0, 0, 0], [0] * 8, [0, 0, 0, 0, 0, 0, 0, 5]])
    assert predict_words(logits, counts).item() == pytest.approx(
        naive_predict_words(logits, counts), rel=1e-5
    )
    assert predict_words(logits, torch.zeros(3, V)).item() == 0


def outputs() -> dict[str, Tensor]:
    return {"image": vectors(B, 1) * 4 - 1, "text": vectors(4, 2) * 4 - 1, "bag": vectors(4, 3)}


OWNER = torch.tensor([0, 1, 1, 2])
COUNTS = torch.tensor([[1.0, 0, 0, 1, 0, 0, 0, 0], [0, 2, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 1, 0]])


@pytest.mark.parametrize("unit", [False, True])
def test_the_total_is_the_weighted_sum(unit: bool) -> None:
    config = ObjectiveConfig(
        contrastive=1.5,
        temperature=0.1,
        flops_image=0.3,
        flops_text=0.7,
        flops_warmup=0.5,
        flops_unit=unit,
        anchor_contrastive=0.4,
        anchor_align=0.2,
        anchor_words=0.6,
    )
    given = outputs()
    loss, parts = total_loss(given, OWNER, COUNTS, config, progress=0.25)
    given = {name: tensor.detach() for name, tensor in given.items()}
    images, texts = (torch.log(1 + torch.relu(given[name])) for name in ("image", "text"))
    regular = [v / v.norm(dim=1, keepdim=True) if unit else v for v in (images, texts)]
    expected = {
        "contrastive": naive_contrastive(images, texts, OWNER.tolist(), 0.1),
        "flops_image": naive_flops(regular[0]),
        "flops_text": naive_flops(regular[1]),
        "anchor": naive_contrastive(images, given["bag"], OWNER.tolist(), 0.1),
        "align": naive_align(texts, given["bag"]),
        "words": naive_predict_words(given["image"], COUNTS),
        "terms_image": (given["image"] > 0).sum() / B,
        "terms_text": (given["text"] > 0).sum() / 4,
    }
    weights = {"contrastive": 1.5, "flops_image": 0.3 / 4, "flops_text": 0.7 / 4}
    weights |= {"anchor": 0.4, "align": 0.2, "words": 0.6}
    expected["loss"] = sum(weight * expected[name] for name, weight in weights.items())
    assert {k: float(v) for k, v in parts.items()} == pytest.approx(
        {k: float(v) for k, v in expected.items()}, rel=1e-4
    )
    assert loss.item() == pytest.approx(float(expected["loss"]), rel=1e-4)
    assert not any(part.requires_grad for part in parts.values())


@pytest.mark.parametrize(
    ("weight", "part"),
    [
        ("contrastive", "contrastive"),
        ("flops_image", "flops_image"),
        ("flops_text", "flops_text"),
        ("anchor_contrastive", "anchor"),
        ("anchor_align", "align"),
        ("anchor_words", "words"),
    ],
)
def test_a_loss_alone(weight: str, part: str) -> None:
    """One loss can be trained on at any time, the first step included; the others are not computed."""
    none = dict.fromkeys(("contrastive", "flops_image", "flops_text"), 0.0)
    config = ObjectiveConfig(**{**none, weight: 1.0})
    loss, parts = total_loss(outputs(), OWNER, COUNTS, config, progress=0.0)
    assert set(parts) == {part, "loss", "terms_image", "terms_text"}
    loss.backward()
