import math

import pytest
import torch
from torch import Tensor

from lexlip.config import ObjectiveConfig
from lexlip.objectives.compared import Compared, TaughtScores
from lexlip.objectives.distillation import distillation_share
from tests.objectives.some_vectors import OWNERS, B, vectors
from tests.reference.losses import cosine, naive_truncate


def compared(
    images: Tensor,
    texts: Tensor,
    owners: list[int],
    taught: TaughtScores,
    part: slice = slice(None),
    **keys: object,
) -> Compared:
    """What a process sees that has some of the texts, and all photos; `gather` gives it all texts."""
    own, everyone = torch.tensor(owners)[part], {id(texts[part]): texts}
    local = texts[part]
    everyone = {id(images): images, id(local): texts}

    def gather(rows: Tensor) -> tuple[Tensor, int]:
        if rows.dim() == 1:
            return torch.tensor(owners), 0
        return everyone[id(rows)], part.start or 0 if rows is local else 0

    return Compared(
        config=ObjectiveConfig(distillation=1.0, **keys),
        metric="cosine",
        progress=1.0,
        images=images,
        texts=local,
        owners=own,
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
    loss = distillation_share(compared(images, texts, owners, taught, **keys))
    plain = naive(images, texts, owners, taught, 0.2, topk)
    torch.testing.assert_close(loss, plain, rtol=1e-4, atol=1e-6)
    found = torch.autograd.grad(loss, (images, texts), retain_graph=True)
    torch.testing.assert_close(found, torch.autograd.grad(plain, (images, texts)), rtol=1e-3, atol=1e-5)
    parts = slice(0, 1), slice(1, len(owners))
    shares = [distillation_share(compared(images, texts, owners, taught, part, **keys)) for part in parts]
    torch.testing.assert_close(sum(shares), loss)


def test_who_agrees_with_the_teacher_has_nothing_to_learn() -> None:
    images, texts, owners = vectors(B, 1), vectors(B, 2), [0, 1, 2]
    unit = [v / v.norm(dim=1, keepdim=True) for v in (images, texts)]
    scores = (unit[1] @ unit[0].t()).detach()
    loss = distillation_share(compared(images, texts, owners, TaughtScores(scores, scores.t())))
    assert loss.item() == pytest.approx(0, abs=1e-6)
