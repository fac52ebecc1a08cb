"""Lexical anchors, which keep the words of the vocabulary meaningful.

If both encoders are free, contrastive learning turns the vocabulary into an arbitrary code. A bag of the
caption's own words, as a further view of the text, keeps an image's words readable, and trains the query
encoder that needs no network (`lexlip.encoders.lexicon.BagOfWords`).
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from lexlip.objectives.compared import Compared
from lexlip.objectives.contrastive import in_batch


def align(texts: Tensor, bags: Tensor) -> Tensor:
    """Return the mean of 1 - cosine between text vectors [T, V] and their bags of words [T, V]."""
    return (1 - F.cosine_similarity(texts, bags, dim=1)).mean()


def predict_words(image_logits: Tensor, word_counts: Tensor) -> Tensor:
    """Return the cross-entropy of the image bottleneck a (Eq. 8) against the words of the image's captions.

    Args:
        image_logits: raw max-pooled logits [B, V]; a is their softmax.
        word_counts: [B, V], how many of the image's captions contain the word; an empty row has loss 0.

    Returns:
        A scalar, the mean over the B images.
    """
    totals = word_counts.sum(dim=1, keepdim=True)
    target = word_counts / totals.clamp(min=1)
    return -(target * F.log_softmax(image_logits.float(), dim=1)).sum(dim=1).mean()


def contrastive_share(compared: Compared) -> Tensor:
    """Return a process's share of the in-batch contrastive loss between images and bags of words."""
    assert compared.bags is not None
    return in_batch(compared, compared.everyone.images, compared.gather(compared.bags)[0])


def align_share(compared: Compared) -> Tensor:
    """Return a process's share of `align`."""
    assert compared.bags is not None
    return compared.text_share * align(compared.texts, compared.bags)


def words_share(compared: Compared) -> Tensor:
    """Return a process's share of `predict_words`."""
    assert compared.word_counts is not None
    logits = compared.config.softmax_scale * compared.image_logits
    return compared.image_share * predict_words(logits, compared.word_counts)
