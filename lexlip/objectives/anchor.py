"""Lexical anchors: what holds the vocabulary to its words.

With both encoders free, contrastive learning turns the vocabulary into an arbitrary code. A bag of
the caption's own words as a further view of the text keeps an image's terms readable, and trains the
query encoder that needs no network (`lexlip.encoders.lexicon.BagOfWords`).
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def align(texts: Tensor, bags: Tensor) -> Tensor:
    """Mean of 1 - cosine between text vectors [T, V] and their bags of words [T, V]; a scalar."""
    return (1 - F.cosine_similarity(texts, bags, dim=1)).mean()


def predict_words(image_logits: Tensor, word_counts: Tensor) -> Tensor:
    """Cross-entropy of the image bottleneck a (Eq. 8) against the words of the image's captions.

    Args:
        image_logits: [B, V] raw max-pooled logits; a = softmax of them.
        word_counts: [B, V] how many of the image's captions hold the word; an empty row has loss 0.

    Returns:
        A scalar, the mean over the B images.
    """
    totals = word_counts.sum(dim=1, keepdim=True)
    target = word_counts / totals.clamp(min=1)
    return -(target * F.log_softmax(image_logits.float(), dim=1)).sum(dim=1).mean()
