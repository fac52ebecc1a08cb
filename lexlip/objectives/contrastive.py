"""Lexicon-contrastive learning: in the batch, L_baco (Eq. 15-16), or against queues of keys (Eq. 20-22)."""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor


def contrastive(
    images: Tensor,
    texts: Tensor,
    image_of_text: Tensor,
    temperature: float,
    same_image_negatives: bool = False,
    rows: slice | None = None,
    metric: Literal["cosine", "dot"] = "cosine",
    composed: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """InfoNCE between images and texts, both directions averaged (Eq. 15-16).

    The score is the cosine, or the dot product (LightningDOT's CMR), over the temperature. Texts of the same
    image are all its positives: none of them is a negative of the others, unless `same_image_negatives`.

    Args:
        images: [B, V] vectors.
        texts: [T, V] vectors, T >= B.
        image_of_text: int64 [T], the row of each text's image.
        temperature: divides the cosine.
        same_image_negatives: count the other texts of an image as its negatives.
        rows: the texts whose share of the loss is wanted; the shares of all T add up to the loss.
        metric: what two vectors are compared by.
        composed: one more negative of each image, [B, V], and of each text, [T, V] (VLDeformer, Eq. 1-3): the
            image of a pair is contrasted with that of its text too, and the text with that of its image.

    Returns:
        A scalar: the mean of -log P(text | image) and -log P(image | text) over the T pairs.
    """
    rows = slice(None) if rows is None else rows
    unit = partial(F.normalize, dim=1) if metric == "cosine" else (lambda vectors: vectors)
    asking, owners = unit(texts), image_of_text[rows]
    images = unit(images)
    to_images = (asking[rows] @ images.t()).float() / temperature  # [t, B]
    own_images, image_of_row = owners.unique(return_inverse=True)
    to_texts = (images[own_images] @ asking.t()).float()[image_of_row] / temperature  # [t, T]
    positive = to_images.gather(1, owners[:, None]).squeeze(1)
    if not same_image_negatives:
        rivals = owners[:, None] == image_of_text[None, :]
        rivals[torch.arange(len(owners)), torch.arange(len(texts))[rows]] = False
        to_texts = to_texts.masked_fill(rivals, float("-inf"))
    if composed is not None:
        composed_images, composed_texts = (unit(vectors) for vectors in composed)
        to_composed = (asking[rows] * composed_images[owners]).sum(dim=1, keepdim=True)  # [t, 1]
        to_images = torch.cat([to_images, to_composed.float() / temperature], dim=1)
        to_composed = (images[owners] * composed_texts[rows]).sum(dim=1, keepdim=True)
        to_texts = torch.cat([to_texts, to_composed.float() / temperature], dim=1)
    losses = torch.logsumexp(to_images, dim=1) + torch.logsumexp(to_texts, dim=1) - 2 * positive
    return losses.sum() / (2 * len(texts))


def momentum_contrastive(
    queries: Tensor,
    keys: Tensor,
    queue: Tensor,
    same_image: Tensor | None,
    temperature: float,
) -> Tensor:
    """InfoNCE of one direction against a queue (Eq. 20-22).

    Args:
        queries: [N, V] vectors of the encoder that learns.
        keys: [N, V] vectors of the other modality's key encoder; row n is the positive of query n.
        queue: [Q, V] unit vectors, earlier keys.
        same_image: bool [N, Q], keys that are of the query's own image and so no negatives; None: all are.
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
