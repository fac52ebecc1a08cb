import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from lexlip.config import ObjectiveConfig
from lexlip.objectives.losses import (
    Compared,
    TaughtScores,
    _flops_share,
    align,
    distillation_share,
    flops,
    predict_words,
    quadratic_warmup,
)
from tests.objectives.some_vectors import OWNERS, B, V, check, vectors
from tests.reference.losses import cosine, naive_align, naive_flops, naive_predict_words, naive_truncate


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
    without = predict_words(logits[[0, 2]], counts[[0, 2]])
    assert predict_words(logits, counts).item() == pytest.approx(without.item() * 2 / 3, rel=1e-5)


def test_flops_of_each_process() -> None:
    """As in the authors' code: the mean over processes of FLOPS of each one's part, on unit vectors."""
    config = ObjectiveConfig(flops_unit=True, flops_per_process=True)
    parts = vectors(3, 1), vectors(4, 2)
    shares = []
    for part in parts:
        compared: Any = SimpleNamespace(config=config, processes=2)  # gathers nothing
        shares.append(_flops_share(compared, part, 7.0))
    units = [part / part.norm(dim=1, keepdim=True) for part in parts]
    assert sum(shares).item() == pytest.approx((naive_flops(units[0]) + naive_flops(units[1])) / 2, rel=1e-5)


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


def compared(
    images: Tensor,
    texts: Tensor,
    owners: list[int],
    taught: TaughtScores,
    part: slice = slice(None),
    **keys: object,
) -> Compared:
    """What a process sees that has some of the texts, and all photos; `gather` gives it all texts."""
    local = texts[part]

    def gather(rows: Tensor) -> tuple[Tensor, int]:
        if rows.dim() == 1:
            return torch.tensor(owners), 0
        return (texts, part.start or 0) if rows is local else (images, 0)

    return Compared(
        config=ObjectiveConfig(distillation=1.0, **keys),
        metric="cosine",
        progress=1.0,
        images=images,
        texts=local,
        owners=torch.tensor(owners)[part],
        photos=torch.arange(len(images)),
        image_logits=images,
        taught=TaughtScores(*(scores[part] for scores in taught)),
        total_images=len(images),
        total_texts=len(owners),
        processes=1,
        gather=gather,
    )


def naive_divergence(student: list[Tensor], teacher: list[float], temperature: float) -> Tensor:
    """Sum of p log(p / q), of the teacher's p and the student's q."""
    p = [math.exp(score / temperature) for score in teacher]
    q = [(score / temperature).exp() for score in student]
    return sum(a / sum(p) * ((math.log(a / sum(p))) - (b / sum(q)).log()) for a, b in zip(p, q, strict=True))


def naive(
    images: Tensor,
    texts: Tensor,
    owners: list[int],
    taught: TaughtScores,
    temperature: float,
    topk: tuple[int, ...],
) -> Tensor:
    found = []
    for k in topk or (images.shape[1],):
        short_images, short_texts = naive_truncate(images, k), naive_truncate(texts, k)
        for t, i in enumerate(owners):
            to_images = [cosine(texts[t], image) for image in short_images]
            to_texts = [cosine(images[i], text) for text in short_texts]
            found.append(naive_divergence(to_images, taught.to_images[t].tolist(), temperature))
            found.append(naive_divergence(to_texts, taught.to_texts[t].tolist(), temperature))
    return sum(found) / len(found)


@pytest.mark.parametrize("topk", [(), (3,), (2, 5)])
@pytest.mark.parametrize("owners", OWNERS.values(), ids=OWNERS.keys())
def test_the_divergence_and_its_gradient(owners: list[int], topk: tuple[int, ...]) -> None:
    images, texts = vectors(B, 1), vectors(len(owners), 2)
    generator = torch.Generator().manual_seed(3)
    taught = TaughtScores(
        torch.rand(len(owners), B, generator=generator),
        torch.rand(len(owners), len(owners), generator=generator),
    )
    keys = {"topk": topk, "temperature": 0.2}
    parts = slice(0, 1), slice(1, len(owners))
    whole, *shares = (
        distillation_share(compared(images, texts, owners, taught, part, **keys))
        for part in (slice(None), *parts)
    )
    check(whole, naive(images, texts, owners, taught, 0.2, topk), (images, texts), shares)


def test_who_agrees_with_the_teacher_has_nothing_to_learn() -> None:
    images, texts, owners = vectors(B, 1), vectors(B, 2), [0, 1, 2]
    unit = [v / v.norm(dim=1, keepdim=True) for v in (images, texts)]
    scores = (unit[1] @ unit[0].t()).detach()
    loss = distillation_share(compared(images, texts, owners, TaughtScores(scores, scores.t())))
    assert loss.item() == pytest.approx(0, abs=1e-6)
