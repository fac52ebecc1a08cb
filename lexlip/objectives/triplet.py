"""The triplet loss with the hardest negative of the batch (VSE++, Faghri et al., 2018), which trains BE."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from lexlip.objectives.compared import Compared


def hardest_triplet(
    images: Tensor, texts: Tensor, image_of_text: Tensor, margin: float, rows: slice | None = None
) -> Tensor:
    """Contrast each pair with the most similar other photo, and the most similar caption of another photo.

    Scores are cosines; captions of one photo are not its negatives.

    Args:
        images: [B, D].
        texts: [T, D].
        image_of_text: int64 [T], the row of each caption's photo.
        margin: by which a pair should score higher.
        rows: the texts whose share of the loss is wanted; the shares of all T texts add up to the loss.

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


def triplet_share(compared: Compared) -> Tensor:
    """Return a process's share of the loss over the batch of all processes."""
    images, texts, owners, rows = compared.everyone
    return hardest_triplet(images, texts, owners, compared.config.margin, rows)
