"""Photos against captions: InfoNCE in the batch (L_baco) or against queues of keys, and the triplet loss."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from lexlip.objectives.compared import Compared, truncate
from lexlip.registry import Metric


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
    """InfoNCE between images and texts, both directions averaged (Eq. 15-16).

    The score is the cosine, or the dot product (LightningDOT's CMR), over the temperature. Texts of the same
    image are all its positives: none is a negative of the others, unless `same_image_negatives`.

    Args:
        images: vectors [B, V].
        texts: vectors [T, V], T >= B.
        image_of_text: int64 [T], the row of each text's image.
        temperature: divides the score.
        same_image_negatives: count the other texts of an image as its negatives.
        rows: the texts whose share of the loss is wanted; the shares of all T texts add up to the loss.
        metric: how two vectors are compared.
        composed: changed images [B, V] and changed texts [T, V] (VLDeformer, Eq. 1-3): all changed images
            are further negatives of each text, and all changed texts of each image.

    Returns:
        A scalar: the mean of -log P(text | image) and -log P(image | text) over the T pairs.
    """
    rows = slice(None) if rows is None else rows
    unit = partial(F.normalize, dim=1) if metric == "cosine" else (lambda vectors: vectors)
    texts, owners = unit(texts), image_of_text[rows]
    images = unit(images)
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
        composed_images, composed_texts = (unit(vectors) for vectors in composed)
        to_composed = (texts[rows] @ composed_images.t()).float() / temperature  # [t, B]
        to_images = torch.cat([to_images, to_composed], dim=1)
        to_composed = (images[own_images] @ composed_texts.t()).float()[image_of_row] / temperature  # [t, T]
        to_texts = torch.cat([to_texts, to_composed], dim=1)
    losses = torch.logsumexp(to_images, dim=1) + torch.logsumexp(to_texts, dim=1) - 2 * positive
    return losses.sum() / (2 * len(texts))


def momentum_contrastive(
    queries: Tensor, keys: Tensor, queue: Tensor, same_image: Tensor | None, temperature: float
) -> Tensor:
    """InfoNCE of one direction against a queue (Eq. 20-22).

    Args:
        queries: vectors [N, V] of the encoder that learns.
        keys: vectors [N, V] of the other modality's key encoder; row n is the positive of query n.
        queue: unit vectors [Q, V], earlier keys.
        same_image: bool [N, Q], keys of the query's own image, which are not negatives; None: all are.
        temperature: divides the cosine.

    Returns:
        A scalar: the mean of -log(exp(q·k) / (exp(q·k) + sum over the queue of exp(q·k'))).
    """
    queries = F.normalize(queries, dim=1)
    positive = (queries * F.normalize(keys, dim=1)).sum(dim=1, keepdim=True).float()
    negative = (queries.to(queue.dtype) @ queue.t()).float()
    if same_image is not None:
        negative = negative.masked_fill(same_image, float("-inf"))
    scores = torch.cat([positive, negative], dim=1) / temperature
    return (torch.logsumexp(scores, dim=1) - scores[:, 0]).mean()


def hardest_triplet(
    images: Tensor, texts: Tensor, image_of_text: Tensor, margin: float, rows: slice | None = None
) -> Tensor:
    """Contrast each pair with the most similar other photo, and the most similar caption of another photo.

    This loss of VSE++ (Faghri et al., 2018) trains BE. Scores are cosines; captions of one photo are not its
    negatives. `image_of_text` and `rows` are those of `contrastive`.

    Returns:
        A scalar: the mean over the T pairs of the sum of both hinges; a hinge without a negative is 0.
    """
    rows = slice(None) if rows is None else rows
    scores = (F.normalize(texts, dim=1) @ F.normalize(images, dim=1).t()).float()  # [T, B]
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
    """Return the share of the same loss with documents cut to their heaviest words, as an index holds them.

    The documents are images that captions search for, and captions that images search for; averaged over
    `config.topk`.
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
    """Return a process's share of the triplet loss."""
    images, texts, owners, rows = compared.everyone
    return hardest_triplet(images, texts, owners, compared.config.margin, rows)


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
        losses.append(momentum_contrastive(queries, positives, held, same, config.temperature))
    return compared.text_share * (losses[0] + losses[1]) / 2
