"""The losses over a whole batch, and their weighted sum.

To add one: a function that returns a process's share, an entry in LOSSES, and its weight in
`lexlip.config.ObjectiveConfig`. Losses of single captions (masked words, matching) are in
`lexlip.training.method`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from lexlip.config import ObjectiveConfig
from lexlip.registry import Metric


class Everyone(NamedTuple):
    """The vectors of all processes, with their gradient."""

    images: Tensor  # [B', V]
    texts: Tensor  # [T', V]
    owners: Tensor  # int64 [T'], the row of each text's image
    rows: slice  # the texts of this process


class Keys(NamedTuple):
    """The key encoders' vectors of this process's photos and texts, and the queues of earlier ones."""

    images: Tensor  # [B, V]
    texts: Tensor  # [T, V]
    image_queue: tuple[Tensor, Tensor]  # vectors [q, V], and int64 [q], the photo that each belongs to
    text_queue: tuple[Tensor, Tensor]  # the same of texts


class TaughtScores(NamedTuple):
    to_images: Tensor  # [t, B], of each caption with all photos
    to_texts: Tensor  # [t, T], of each caption's photo with all captions


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One step's photos and texts in one process, and how to reach those of the others.

    Each loss computes this process's share: the shares of all processes add up to the loss that one process
    would have with the whole batch.
    """

    config: ObjectiveConfig
    metric: Metric
    progress: float  # share of the run that is done, for warm-ups
    images: Tensor  # vectors [B, V]
    texts: Tensor  # vectors [T, V]
    owners: Tensor  # int64 [T], the row of each text's image
    photos: Tensor  # int64 [B], the index of each photo in its source
    image_logits: Tensor  # raw output [B, V] before it became a vector
    composed: tuple[Tensor, Tensor] | None = None  # vectors of half-changed photos [B, V] and texts [T, V]
    keys: Keys | None = None  # None without queues
    joint: tuple[Tensor, Tensor] | None = None  # dense unit vectors below the words, [B, D] and [T, D]
    present: Tensor | None = None  # bool [T, V], which words the texts contain; None if no loss asks
    bags: Tensor | None = None  # bags of words [T, V] of the texts; None without anchors
    word_counts: Tensor | None = None  # [B, V], how many of a photo's captions contain each word
    taught: TaughtScores | None = None
    total_images: float  # over all processes, as are total_texts
    total_texts: float
    processes: int  # how many there are
    gather: Callable[[Tensor], tuple[Tensor, int]]  # see `lexlip.training.distributed.Processes.gather`

    @cached_property
    def everyone(self) -> Everyone:
        """The vectors of all processes; gathered once, and only if a loss asks for them."""
        images, first_image = self.gather(self.images)
        texts, first_text = self.gather(self.texts)
        owners, _ = self.gather(self.owners + first_image)
        return Everyone(images, texts, owners, slice(first_text, first_text + len(self.texts)))

    @property
    def text_share(self) -> float:
        return len(self.texts) / self.total_texts

    @property
    def image_share(self) -> float:
        return len(self.images) / self.total_images


def truncate(vectors: Tensor, k: int) -> Tensor:
    """Return vectors [B, V] with all but the k largest entries of each row set to 0, as an index has them.

    The gradient reaches the k entries that are kept.
    """
    if k >= vectors.shape[1]:
        return vectors
    values, columns = vectors.topk(k, dim=1)
    return torch.zeros_like(vectors).scatter(1, columns, values)


def compared_as(vectors: Tensor, metric: Metric) -> Tensor:
    """Return vectors [n, V] whose dot products are what `metric` compares them by."""
    return F.normalize(vectors, dim=1) if metric == "cosine" else vectors


def contrastive(
    images: Tensor,
    texts: Tensor,
    image_of_text: Tensor,
    temperature: float,
    same_image_negatives: bool = False,
    rows: slice | None = None,
    metric: Metric = "cosine",
    composed: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """InfoNCE between images [B, V] and texts [T, V], T >= B, both directions averaged (Eq. 15-16).

    The score is the cosine, or the dot product (LightningDOT's CMR), over the temperature. Texts of the same
    image are all its positives: none is a negative of the others, unless `same_image_negatives`.

    `image_of_text` is the row of each text's image, int64 [T]. `rows` are the texts whose share of the loss
    is wanted: the shares of all T texts add up to it. All `composed` images [B, V] are further negatives of
    each text, and all composed texts [T, V] of each image (VLDeformer, Eq. 1-3).

    Returns a scalar: the mean of -log P(text | image) and -log P(image | text) over the T pairs.
    """
    rows = slice(None) if rows is None else rows
    texts, owners = compared_as(texts, metric), image_of_text[rows]
    images = compared_as(images, metric)
    to_images = (texts[rows] @ images.t()).float() / temperature  # [t, B]
    own_images, image_of_row = owners.unique(return_inverse=True)
    to_texts = (images[own_images] @ texts.t()).float()[image_of_row] / temperature  # [t, T]
    positive = to_images.gather(1, owners[:, None]).squeeze(1)
    if not same_image_negatives:
        siblings = owners[:, None] == image_of_text[None, :]
        numbers = torch.arange(len(texts), device=texts.device)
        siblings[numbers[: len(owners)], numbers[rows]] = False
        to_texts = to_texts.masked_fill(siblings, float("-inf"))
    if composed is not None:
        composed_images, composed_texts = (compared_as(vectors, metric) for vectors in composed)
        to_composed = (texts[rows] @ composed_images.t()).float() / temperature  # [t, B]
        to_images = torch.cat([to_images, to_composed], dim=1)
        to_composed = (images[own_images] @ composed_texts.t()).float()[image_of_row] / temperature  # [t, T]
        to_texts = torch.cat([to_texts, to_composed], dim=1)
    losses = torch.logsumexp(to_images, dim=1) + torch.logsumexp(to_texts, dim=1) - 2 * positive
    return losses.sum() / (2 * len(texts))


def momentum_contrastive(
    queries: Tensor,
    keys: Tensor,
    queue: Tensor,
    same_image: Tensor | None,
    temperature: float,
    metric: Metric = "cosine",
) -> Tensor:
    """InfoNCE of one direction against a queue [Q, V] of earlier keys, as `KeyQueue` holds them (Eq. 20-22).

    Row n of the other modality's `keys` [N, V] is the positive of query n of `queries` [N, V]. `same_image`,
    bool [N, Q], are keys of the query's own image, which are no negatives; None: all are. Returns the mean of
    -log(exp(q·k) / (exp(q·k) + sum over the queue of exp(q·k'))), q·k being the cosine, or the dot product,
    over the temperature.
    """
    queries = compared_as(queries, metric)
    positive = (queries * compared_as(keys, metric)).sum(dim=1, keepdim=True).float()
    negative = (queries.to(queue.dtype) @ queue.t()).float()
    if same_image is not None:
        negative = negative.masked_fill(same_image, float("-inf"))
    scores = torch.cat([positive, negative], dim=1) / temperature
    return (torch.logsumexp(scores, dim=1) - scores[:, 0]).mean()


def hardest_triplet(
    images: Tensor,
    texts: Tensor,
    image_of_text: Tensor,
    margin: float,
    rows: slice | None = None,
    metric: Metric = "cosine",
) -> Tensor:
    """Contrast each pair with the most similar other photo, and the most similar caption of another photo.

    This loss of VSE++ (Faghri et al., 2018) trains BE, with cosines. Captions of one photo are not its
    negatives. `image_of_text` and `rows` are those of `contrastive`. Returns the mean over the T pairs of the
    sum of both hinges; a hinge without a negative is 0.
    """
    rows = slice(None) if rows is None else rows
    scores = (compared_as(texts, metric) @ compared_as(images, metric).t()).float()  # [T, B]
    own = image_of_text[:, None] == torch.arange(len(images), device=texts.device)
    negatives = scores.masked_fill(own, float("-inf"))
    owners = image_of_text[rows]
    positive = scores[rows].gather(1, owners[:, None]).squeeze(1)
    photo, caption = negatives[rows].amax(dim=1), negatives.amax(dim=0)[owners]
    hinges = F.relu(margin + photo - positive) + F.relu(margin + caption - positive)
    return hinges.sum() / len(texts)


def contrastive_share(compared: Compared) -> Tensor:
    """Return a process's share of the contrastive loss: with queues if there are any, else in the batch."""
    if compared.keys is not None:
        return _against_queues(compared, compared.images, compared.texts)
    composed = None
    if compared.composed is not None:
        images, texts = (compared.gather(vectors)[0] for vectors in compared.composed)
        composed = images, texts
    return in_batch(compared, compared.everyone.images, compared.everyone.texts, composed)


def truncated_share(compared: Compared) -> Tensor:
    """Return the share of the same loss, averaged over `topk`, with documents cut to their heaviest words.

    The documents are images that captions search for, and captions that images search for.
    """
    losses = []
    for k in compared.config.topk:
        if compared.keys is not None:  # each side in turn is the document, and the other's keys are queries
            images, texts = truncate(compared.images, k), truncate(compared.texts, k)
            losses.append(_against_queues(compared, images, texts))
        else:
            images, texts = compared.everyone.images, compared.everyone.texts
            losses.append(in_batch(compared, truncate(images, k), texts) / 2)
            losses.append(in_batch(compared, images, truncate(texts, k)) / 2)
    return sum(losses, start=compared.images.new_zeros(())) / len(compared.config.topk)


def triplet_share(compared: Compared) -> Tensor:
    images, texts, owners, rows = compared.everyone
    return hardest_triplet(images, texts, owners, compared.config.margin, rows, compared.metric)


def in_batch(
    compared: Compared, images: Tensor, texts: Tensor, composed: tuple[Tensor, Tensor] | None = None
) -> Tensor:
    """Return a process's share of the in-batch loss of gathered vectors, [B', V] and [T', V]."""
    config, everyone = compared.config, compared.everyone
    return contrastive(
        images,
        texts,
        everyone.owners,
        config.temperature,
        config.same_image_negatives,
        everyone.rows,
        compared.metric,
        composed,
    )


def _against_queues(compared: Compared, images: Tensor, texts: Tensor) -> Tensor:
    config, keys, owners = compared.config, compared.keys, compared.owners
    assert keys is not None
    losses = []
    for queries, positives, (held, photos) in (
        (texts, keys.images[owners], keys.image_queue),
        (images[owners], keys.texts, keys.text_queue),
    ):
        same = None
        if not config.same_image_negatives:
            same = compared.photos[owners][:, None] == photos[None, :]
        losses.append(
            momentum_contrastive(queries, positives, held, same, config.temperature, compared.metric)
        )
    return compared.text_share * (losses[0] + losses[1]) / 2


# ---- FLOPS regularisation: few active words, spread evenly over the vocabulary ----


def flops(mean: Tensor) -> Tensor:
    """Return the sum over the vocabulary of (mean over the batch of p_v)² (Eq. 17); `mean` is [V].

    Eq. 17 weights the mean of both sides, so the paper's 0.002 is a weight of 0.001 for each side.
    """
    return mean.square().sum()


def quadratic_warmup(progress: float, length: float) -> float:
    """Return the factor of the FLOPS weight: (progress / length)² up to 1 (SPLADE, Formal et al., 2021).

    Both are shares of the run, in [0, 1]; a length of 0 gives a constant 1.
    """
    return min(1.0, progress / length) ** 2 if length > 0 else 1.0


def _flops_share(compared: Compared, vectors: Tensor, total: float) -> Tensor:
    if compared.config.flops_unit:
        vectors = F.normalize(vectors, dim=1)
    if compared.config.flops_per_process:
        return flops(vectors.mean(dim=0)) / compared.processes
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

    `image_logits` are raw and max-pooled, [B, V]; a is their softmax. `word_counts`, [B, V], is how many of
    the image's captions contain the word; an empty row has loss 0.
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


# ---- captions as gates: which words a photo, or a caption itself, may have ----


def caption_gated(images: Tensor, logits: Tensor, captions: Tensor) -> Tensor:
    """Return the caption-gated token supervision of V-SPLADE (Cho et al., 2026, arXiv 2605.30917).

    A photo shall activate the words of its caption, first those that it has already: the weights of
    -log sigmoid(logit_v) are (p_v + mean p) c_v, scaled to a sum of 1. There a model captions pages of
    documents; here people captioned photos.

    Args:
        images: vectors p of each caption's photo, [T, V].
        logits: their raw output, max-pooled, [T, V].
        captions: weights c of the captions' own words, [T, V]; 0 for all others.

    Returns:
        A scalar: the mean over captions, 0 for one without words. Only logits get a gradient.
    """
    with torch.no_grad():
        shared = (images + images.mean(dim=1, keepdim=True)) * captions
        shared = shared / shared.sum(dim=1, keepdim=True).clamp(min=1e-8)
    return -(shared * F.logsigmoid(logits.float())).sum(dim=1).mean()


def _caption_gated(compared: Compared) -> Tensor:
    assert compared.present is not None
    own, photos = compared.texts * compared.present, compared.owners
    return compared.text_share * caption_gated(compared.images[photos], compared.image_logits[photos], own)


def control_expansion(texts: Tensor, present: Tensor, chance: float) -> Tensor:
    """Return text vectors [T, V] of which each keeps all its words by chance, else only its own.

    D2S's probabilistic expansion control (Nguyen et al., 2024, arXiv 2402.17535): a Bernoulli variable opens
    expansion, ever more often as the run goes on, so that words keep their meaning. `present`, bool [T, V],
    says which words each text contains.
    """
    expanded = torch.rand(len(texts), 1, device=texts.device) < chance
    return texts * (present | expanded)


# ---- distillation: photos and captions are to be as near to each other as a trained model finds them ----


def divergence(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Return the mean over rows [n, m] of KL(softmax(teacher / temperature) | softmax(student / ...))."""
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
    unit = partial(compared_as, metric=compared.metric)
    own = owners[rows]
    losses = []
    for k in config.topk or (images.shape[1],):
        to_images = unit(texts[rows]) @ unit(truncate(images, k)).t()
        to_texts = unit(images[own]) @ unit(truncate(texts, k)).t()
        for student, teacher in zip((to_images, to_texts), compared.taught, strict=True):
            losses.append(divergence(student, teacher, config.temperature))
    return compared.text_share * sum(losses[1:], start=losses[0]) / len(losses)


# ---- distillation within a model whose words are made of dense vectors (`model.joint`) ----


class Side(NamedTuple):
    """What photos and texts are compared by: unit vectors, or those whose dot products count."""

    images: Tensor  # [B', D]
    texts: Tensor  # [T', D]


def _sides(compared: Compared) -> tuple[Side, Side]:
    """Return the dense vectors, and those of words, of all processes."""
    assert compared.joint is not None
    dense = Side(*(compared.gather(vectors)[0] for vectors in compared.joint))
    both = compared.everyone.images, compared.everyone.texts
    return dense, Side(*(compared_as(vectors, compared.metric) for vectors in both))


def _following(compared: Compared, student: Side, teacher: Side) -> Tensor:
    """Return the divergence of scores from those of a teacher without gradient, both directions averaged."""
    _, _, owners, rows = compared.everyone
    to_images, to_texts = (
        divergence(one, other.detach(), compared.config.temperature)
        for one, other in (
            (student.texts[rows] @ student.images.t(), teacher.texts[rows] @ teacher.images.t()),
            (
                student.images[owners[rows]] @ student.texts.t(),
                teacher.images[owners[rows]] @ teacher.texts.t(),
            ),
        )
    )
    return compared.text_share * (to_images + to_texts) / 2


def dense_distillation_share(compared: Compared) -> Tensor:
    """Return a process's share of the divergence of words from the dense vectors below them.

    So D2S turns the vectors of a frozen dense model into words (Nguyen et al., 2024, arXiv 2402.17535). There
    the scores of words have no temperature; here both have the one of `config`.
    """
    dense, words = _sides(compared)
    return _following(compared, words, dense)


def self_distillation_share(compared: Compared) -> Tensor:
    """Return a process's share of the joint loss of words and the dense vectors below them.

    Both together score as the mean of the two, s = (s_dense + s_words) / 2, and this teaches each (Song et
    al., 2025, arXiv 2508.16707): L = (C(dense) + C(words) + C(s) + KL(s | dense) + KL(s | words)) / 2, where
    C contrasts as `contrastive` does. There the parts have weights, the scores of words have no temperature,
    and the teacher gets a gradient, too.
    """
    dense, words = _sides(compared)
    whole = Side(*(torch.cat(both, dim=1) / math.sqrt(2) for both in zip(dense, words, strict=True)))
    losses = [_following(compared, side, whole) for side in (dense, words)]
    losses += [in_batch(compared, *side) for side in (dense, words, whole)]
    return sum(losses[1:], start=losses[0]) / 2


# ---- all of them ----


@dataclass(frozen=True)
class BatchLoss:
    """A loss over the batch of all processes."""

    name: str  # its weight's key in the config's objective, under which it is logged
    share: Callable[[Compared], Tensor]  # computes this process's share of it, a scalar
    factor: Callable[[Compared], float] = lambda compared: 1.0  # of the weight at this point of the run

    def weight(self, compared: Compared) -> float:
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
    BatchLoss("dense_distillation", dense_distillation_share),
    BatchLoss("self_distillation", self_distillation_share),
    BatchLoss("caption_gated", _caption_gated),
    BatchLoss("triplet", triplet_share),
    BatchLoss("flops_image", lambda c: _flops_share(c, c.images, c.total_images), _warmup),  # Eq. 17
    BatchLoss("flops_text", lambda c: _flops_share(c, c.texts, c.total_texts), _warmup),
    BatchLoss("anchor_contrastive", _anchor_contrastive),
    BatchLoss("anchor_align", _anchor_align),
    BatchLoss("anchor_words", _anchor_words),
)


def batch_loss(compared: Compared) -> tuple[Tensor, dict[str, Tensor]]:
    """Return this process's share of the weighted sum of all losses (Eq. 18, 23), and each for the log."""
    parts: dict[str, Tensor] = {}
    total = compared.images.new_zeros(())
    for loss in LOSSES:
        weight = loss.weight(compared)
        if weight > 0:
            parts[loss.name] = loss.share(compared)
            total = total + weight * loss.factor(compared) * parts[loss.name]
    return total, parts
