"""In-batch lexicon-contrastive learning, L_baco (Eq. 15-16)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def contrastive(images: Tensor, texts: Tensor, image_of_text: Tensor, temperature: float) -> Tensor:
    """InfoNCE between images and texts, both directions averaged (Eq. 15-16).

    The score is the cosine over the temperature. Texts of the same image are all its positives: none
    of them is a negative of the others.

    Args:
        images: [B, V] vectors.
        texts: [T, V] vectors, T >= B.
        image_of_text: int64 [T], the row of each text's image.
        temperature: divides the cosine.

    Returns:
        A scalar: the mean of -log P(text | image) and -log P(image | text) over the T pairs.
    """
    scores = F.normalize(images, dim=1) @ F.normalize(texts, dim=1).t() / temperature  # [B, T]
    scores = scores.float()
    pair = torch.arange(len(texts), device=texts.device)
    positive = scores[image_of_text, pair]  # [T]
    text_to_image = (torch.logsumexp(scores, dim=0) - positive).mean()
    same_image = image_of_text[:, None] == image_of_text[None, :]  # [T, T]
    same_image.fill_diagonal_(False)
    rivals = scores[image_of_text].masked_fill(same_image, float("-inf"))  # [T, T]
    image_to_text = (torch.logsumexp(rivals, dim=1) - positive).mean()
    return (text_to_image + image_to_text) / 2
