"""The triplet loss with the hardest negative of the batch (Faghri et al., VSE++, 2018), as BE is trained."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def hardest_triplet(
    images: Tensor, texts: Tensor, image_of_text: Tensor, margin: float, rows: slice | None = None
) -> Tensor:
    """Each pair against the most similar other photo, and against the most similar caption of another photo.

    Scores are cosines; captions of one photo are no negatives of it.

    Args:
        images: [B, D].
        texts: [T, D].
        image_of_text: int64 [T], the row of each caption's photo.
        margin: by which a pair should be ahead.
        rows: the texts whose share of the loss is wanted; the shares of all T add up to the loss.

    Returns:
        A scalar: the mean over the T pairs of the sum of both hinges; one without a negative is 0.
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
