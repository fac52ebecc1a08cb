"""The objectives as loops over single numbers."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor


def cosine(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum() / (a.square().sum().sqrt() * b.square().sum().sqrt())


def dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum()


def naive_contrastive(
    images: Tensor,
    texts: Tensor,
    image_of_text: Sequence[int],
    temperature: float,
    same_image_negatives: bool = False,
    score: Callable[[Tensor, Tensor], Tensor] = cosine,
    composed: tuple[Sequence[Tensor], Sequence[Tensor]] = ((), ()),
) -> Tensor:
    """Eq. 15-16: -log P of each pair, both ways; the other captions of its image are left out, or not.

    VLDeformer, Eq. 1-3, has the batch's composed images and texts in all denominators.
    """
    losses = []
    for t, i in enumerate(image_of_text):
        others = [
            text
            for other, text in enumerate(texts)
            if other == t or image_of_text[other] != i or same_image_negatives
        ]
        pair = (score(images[i], texts[t]) / temperature).exp()
        all_images = sum((score(image, texts[t]) / temperature).exp() for image in [*images, *composed[0]])
        all_texts = sum((score(images[i], text) / temperature).exp() for text in [*others, *composed[1]])
        losses += [-(pair / all_images).log(), -(pair / all_texts).log()]
    return sum(losses) / len(losses)


def naive_hardest_triplet(
    images: Tensor,
    texts: Tensor,
    image_of_text: Sequence[int],
    margin: float,
    score: Callable[[Tensor, Tensor], Tensor] = cosine,
) -> Tensor:
    """Of each pair the hinges of the most similar other photo and caption of another photo."""
    losses = []
    for t, i in enumerate(image_of_text):
        own = score(images[i], texts[t])
        photos = [score(image, texts[t]) for other, image in enumerate(images) if other != i]
        captions = [score(images[i], text) for o, text in enumerate(texts) if image_of_text[o] != i]
        for rivals in (photos, captions):
            if rivals:
                losses.append(torch.clamp(margin + torch.stack(rivals).max() - own, min=0))
    return sum(losses, start=0 * images.sum()) / len(texts)


def naive_momentum_contrastive(
    queries: Tensor,
    keys: Tensor,
    queue: Tensor,
    images: Sequence[int],
    images_of_queue: Sequence[int],
    temperature: float,
    same_image_negatives: bool = False,
    score: Callable[[Tensor, Tensor], Tensor] = cosine,
) -> Tensor:
    """Eq. 20-22: -log P of each key among itself and those of the queue that are of another image."""
    losses = []
    for query, key, image in zip(queries, keys, images, strict=True):
        positive = (score(query, key) / temperature).exp()
        negatives = [
            (score(query, other) / temperature).exp()
            for other, its_image in zip(queue, images_of_queue, strict=True)
            if its_image != image or same_image_negatives
        ]
        losses.append(-(positive / sum(negatives, start=positive)).log())
    return sum(losses) / len(losses)


def naive_truncate(vectors: Tensor, k: int) -> Tensor:
    """The k largest entries of each row; the others are 0."""
    rows = []
    for row, values in zip(vectors, vectors.tolist(), strict=True):
        ranked = sorted(range(len(values)), key=lambda v: -values[v])
        rows.append(torch.stack([row[v] if v in ranked[:k] else 0 * row[v] for v in range(len(values))]))
    return torch.stack(rows)


def naive_bottleneck(logits: Sequence[float], embeddings: Sequence[Sequence[float]]) -> list[float]:
    """Eq. 8-10 of one row: the words' embeddings, weighted by the softmax of the logits."""
    total = sum(math.exp(logit) for logit in logits)
    width = len(embeddings[0])
    return [
        sum(math.exp(logit) / total * word[d] for logit, word in zip(logits, embeddings, strict=True))
        for d in range(width)
    ]


def naive_flops(vectors: Tensor) -> float:
    """Eq. 17."""
    rows = vectors.tolist()
    return sum((sum(row[v] for row in rows) / len(rows)) ** 2 for v in range(len(rows[0])))


def naive_align(texts: Tensor, bags: Tensor) -> Tensor:
    return sum(1 - cosine(text, bag) for text, bag in zip(texts, bags, strict=True)) / len(texts)


def naive_predict_words(image_logits: Tensor, word_counts: Tensor) -> float:
    """Cross-entropy of a = softmax(logits) (Eq. 8), averaged over all images: 0 for one without words."""
    losses = []
    for logits, counts in zip(image_logits.tolist(), word_counts.tolist(), strict=True):
        if sum(counts) == 0:
            losses.append(0.0)
            continue
        total = sum(math.exp(logit) for logit in logits)
        losses.append(
            sum(
                -count / sum(counts) * math.log(math.exp(logit) / total)
                for logit, count in zip(logits, counts, strict=True)
            )
        )
    return sum(losses) / len(losses)


def naive_learning_rate(peak: float, step: int, steps: int, warmup: float) -> float:
    """Linear from 0 to the peak, which step `warmup * steps` (counted from 1) has, then linear to 0, which
    the step after the last would have."""
    top = max(1, round(warmup * steps))
    number = step + 1
    if number <= top:
        return peak * number / top
    return peak * (steps + 1 - number) / (steps + 1 - top)


def naive_divergence(student: np.ndarray, teacher: np.ndarray, temperature: float) -> float:
    """The mean over rows of the KL divergence of one softmax from another."""
    chances = [np.exp(scores / temperature) for scores in (student, teacher)]
    of_student, of_teacher = (row / row.sum(axis=1, keepdims=True) for row in chances)
    return float((of_teacher * np.log(of_teacher / of_student)).sum(axis=1).mean())


def naive_following(
    student: np.ndarray, teacher: np.ndarray, owners: Sequence[int], temperature: float
) -> float:
    """Scores [T, B] of captions with photos follow others, and so do those of captions' photos."""
    captions = naive_divergence(student, teacher, temperature)
    photos = naive_divergence(student.T[list(owners)], teacher.T[list(owners)], temperature)
    return (captions + photos) / 2


def naive_info_nce(scores: np.ndarray, owners: Sequence[int], temperature: float) -> float:
    """In-batch contrast of scores [T, B] of captions with photos; other captions of a photo are left out."""
    losses = []
    for t, i in enumerate(owners):
        chances = np.exp(scores / temperature)
        rivals = [o for o, owner in enumerate(owners) if o == t or owner != i]
        losses.append(-np.log(chances[t, i] / chances[t].sum()))
        losses.append(-np.log(chances[t, i] / chances[rivals, i].sum()))
    return float(np.mean(losses))


def naive_self_distillation(
    dense: np.ndarray, words: np.ndarray, owners: Sequence[int], temperature: float
) -> float:
    """Scores of dense vectors and of words, [T, B], and their mean, which both follow."""
    both = (dense + words) / 2
    contrast = sum(naive_info_nce(scores, owners, temperature) for scores in (dense, words, both))
    return (contrast + sum(naive_following(one, both, owners, temperature) for one in (dense, words))) / 2


def naive_caption_gated(
    images: np.ndarray, logits: np.ndarray, captions: np.ndarray, owners: Sequence[int]
) -> float:
    """-log sigmoid of a photo's logits, by p + mean p times the weight of a word in the caption."""
    losses = []
    for caption, owner in zip(captions, owners, strict=True):
        weights = [(p + images[owner].mean()) * c for p, c in zip(images[owner], caption, strict=True)]
        logs = [-math.log(1 / (1 + math.exp(-logit))) for logit in logits[owner]]
        losses.append(sum(w * one for w, one in zip(weights, logs, strict=True)) / max(sum(weights), 1e-8))
    return sum(losses) / len(losses)
