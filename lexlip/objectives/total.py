"""The training loss as a plain function of what the model put out."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from lexlip.config import ObjectiveConfig
from lexlip.encoders.lexicon import sparse_vector
from lexlip.objectives.anchor import align, predict_words
from lexlip.objectives.contrastive import contrastive
from lexlip.objectives.flops import flops, quadratic_warmup


def total_loss(
    outputs: dict[str, Tensor],
    image_of_text: Tensor,
    word_counts: Tensor,
    config: ObjectiveConfig,
    progress: float,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Weighted sum of the losses that the config switches on (Eq. 18, as far as phase 1 goes).

    Args:
        outputs: "image" [B, V] and "text" [T, V] raw max-pooled logits, "bag" [T, V] bags of words.
        image_of_text: int64 [T].
        word_counts: [B, V], see `predict_words`.
        config: the weights; a loss of weight 0 is not computed.
        progress: share of the run that is done, for the FLOPS warm-up.

    Returns:
        The loss, and its parts (unweighted) for the log.
    """
    images, texts = sparse_vector(outputs["image"]), sparse_vector(outputs["text"])
    bags, t = outputs["bag"], config.temperature
    regular = (
        (F.normalize(images, dim=1), F.normalize(texts, dim=1)) if config.flops_unit else (images, texts)
    )
    warm = quadratic_warmup(progress, config.flops_warmup)
    terms = [
        ("contrastive", config.contrastive, 1.0, lambda: contrastive(images, texts, image_of_text, t)),
        ("flops_image", config.flops_image, warm, lambda: flops(regular[0])),
        ("flops_text", config.flops_text, warm, lambda: flops(regular[1])),
        ("anchor", config.anchor_contrastive, 1.0, lambda: contrastive(images, bags, image_of_text, t)),
        ("align", config.anchor_align, 1.0, lambda: align(texts, bags)),
        ("words", config.anchor_words, 1.0, lambda: predict_words(outputs["image"], word_counts)),
    ]
    parts, loss = {}, images.new_zeros(())
    for name, weight, factor, compute in terms:
        if weight > 0:
            parts[name] = compute()
            loss = loss + weight * factor * parts[name]
    parts["loss"] = loss
    parts["terms_image"] = (images > 0).sum(dim=1).float().mean()
    parts["terms_text"] = (texts > 0).sum(dim=1).float().mean()
    return loss, {name: part.detach() for name, part in parts.items()}
