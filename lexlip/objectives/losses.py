"""The losses over a whole batch, and their weighted sum; photos against captions are in `contrastive.py`.

To add one: a function here that returns a process's share, an entry in LOSSES, and its weight in
`lexlip.config.ObjectiveConfig`. Losses of single captions (masked words, matching) are in
`lexlip.training.method`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from lexlip.objectives.compared import Compared, truncate
from lexlip.objectives.contrastive import contrastive_share, in_batch, triplet_share, truncated_share

# ---- FLOPS regularisation: few active words, spread evenly over the vocabulary ----


def flops(mean: Tensor) -> Tensor:
    """Return the sum over the vocabulary of (mean over the batch of p_v)² (Eq. 17); `mean` is [V].

    Eq. 17 weights the mean of both sides, so the paper's 0.002 is a weight of 0.001 for each side.
    """
    return mean.square().sum()


def quadratic_warmup(progress: float, length: float) -> float:
    """Return the factor of the FLOPS weight: (progress / length)² up to 1 (SPLADE, Formal et al., 2021).

    Args:
        progress: share of the run that is done, in [0, 1].
        length: share of the run over which the factor grows; 0 gives a constant 1.
    """
    return min(1.0, progress / length) ** 2 if length > 0 else 1.0


def _flops_share(compared: Compared, vectors: Tensor, total: float) -> Tensor:
    if compared.config.flops_unit:
        vectors = F.normalize(vectors, dim=1)
    sums = compared.gather(vectors.sum(dim=0, keepdim=True))[0]
    return flops(sums.sum(dim=0) / total) / compared.processes


# ---- anchors: a bag of the caption's own words is a further view of the text ---- If both encoders are
# free, contrastive learning turns the vocabulary into an arbitrary code. The bag keeps an image's words
# readable, and trains `lexlip.encoders.lexicon.BagOfWords`, which needs no network.


def align(texts: Tensor, bags: Tensor) -> Tensor:
    """Return the mean of 1 - cosine between text vectors [T, V] and their bags of words [T, V]."""
    return (1 - F.cosine_similarity(texts, bags, dim=1)).mean()


def predict_words(image_logits: Tensor, word_counts: Tensor) -> Tensor:
    """Return the cross-entropy of the image bottleneck a (Eq. 8) against the words of the image's captions.

    Args:
        image_logits: raw max-pooled logits [B, V]; a is their softmax.
        word_counts: [B, V], how many of the image's captions contain the word; an empty row has loss 0.
    """
    target = word_counts / word_counts.sum(dim=1, keepdim=True).clamp(min=1)
    return -(target * F.log_softmax(image_logits.float(), dim=1)).sum(dim=1).mean()


def _anchor_contrastive(compared: Compared) -> Tensor:
    assert compared.bags is not None
    return in_batch(compared, compared.everyone.images, compared.gather(compared.bags)[0])


def _anchor_align(compared: Compared) -> Tensor:
    assert compared.bags is not None
    return compared.text_share * align(compared.texts, compared.bags)


def _anchor_words(compared: Compared) -> Tensor:
    assert compared.word_counts is not None
    logits = compared.config.softmax_scale * compared.image_logits
    return compared.image_share * predict_words(logits, compared.word_counts)


# ---- distillation: photos and captions are to be as near to each other as a trained model finds them ----


def divergence(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Return the mean over rows of KL(softmax(teacher / temperature) | softmax(student / temperature)).

    Args:
        student: scores [n, m], with gradient.
        teacher: scores [n, m].
        temperature: divides both.
    """
    goal = F.softmax(teacher.float() / temperature, dim=1)
    return F.kl_div(F.log_softmax(student.float() / temperature, dim=1), goal, reduction="batchmean")


def distillation_share(compared: Compared) -> Tensor:
    """Return a process's share of the divergence from the teacher, both directions averaged.

    In-batch contrast counts every other photo of a batch as equally wrong. A teacher's scores say which are
    nearly right, and whole vectors can teach documents that are cut to a few words (Hinton et al., 2015,
    arXiv 1503.02531; with batches of similar photos as in TAS-B, Hofstätter et al., 2021, arXiv 2104.06967).
    With `config.topk`, documents are cut to these numbers of words, and the divergence is averaged over them.
    """
    config, (images, texts, owners, rows) = compared.config, compared.everyone
    assert compared.taught is not None
    unit = (lambda v: F.normalize(v, dim=1)) if compared.metric == "cosine" else (lambda v: v)
    own = owners[rows]
    losses = []
    for k in config.topk or (images.shape[1],):
        to_images = unit(texts[rows]) @ unit(truncate(images, k)).t()
        to_texts = unit(images[own]) @ unit(truncate(texts, k)).t()
        for student, teacher in zip((to_images, to_texts), compared.taught, strict=True):
            losses.append(divergence(student, teacher, config.temperature))
    return compared.text_share * sum(losses[1:], start=losses[0]) / len(losses)


# ---- all of them ----


@dataclass(frozen=True)
class BatchLoss:
    """A loss over the batch of all processes."""

    name: str  # its weight's key in the config's objective, under which it is logged
    share: Callable[[Compared], Tensor]  # computes this process's share of it, a scalar
    factor: Callable[[Compared], float] = lambda compared: 1.0  # of the weight at this point of the run

    def weight(self, compared: Compared) -> float:
        """Return the weight of the loss in the config."""
        config = compared.config
        if self.name == "topk_contrastive":  # relative to that of whole documents
            return config.contrastive * config.topk_contrastive if config.topk else 0.0
        weight: float = getattr(config, self.name)
        return weight


def _warmup(compared: Compared) -> float:
    return quadratic_warmup(compared.progress, compared.config.flops_warmup)


LOSSES: tuple[BatchLoss, ...] = (
    BatchLoss("contrastive", contrastive_share),  # Eq. 15-16, 20-22
    BatchLoss("topk_contrastive", truncated_share),
    BatchLoss("distillation", distillation_share),
    BatchLoss("triplet", triplet_share),
    BatchLoss("flops_image", lambda c: _flops_share(c, c.images, c.total_images), _warmup),  # Eq. 17
    BatchLoss("flops_text", lambda c: _flops_share(c, c.texts, c.total_texts), _warmup),
    BatchLoss("anchor_contrastive", _anchor_contrastive),
    BatchLoss("anchor_align", _anchor_align),
    BatchLoss("anchor_words", _anchor_words),
)


def batch_loss(compared: Compared) -> tuple[Tensor, dict[str, Tensor]]:
    """Return this process's share of the weighted sum of all losses over the batch (Eq. 18, 23).

    Returns:
        The weighted sum, and its unweighted parts by name, for the log.
    """
    parts: dict[str, Tensor] = {}
    total = compared.images.new_zeros(())
    for loss in LOSSES:
        weight = loss.weight(compared)
        if weight > 0:
            parts[loss.name] = loss.share(compared)
            total = total + weight * loss.factor(compared) * parts[loss.name]
    return total, parts
