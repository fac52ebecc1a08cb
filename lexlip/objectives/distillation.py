"""Distillation: photos and captions are to be as near to each other as a trained model finds them.

In-batch contrast counts every other photo of a batch as equally wrong. A teacher's scores say which are
nearly right, and whole vectors can teach documents that are cut to a few words (Hinton et al., 2015, arXiv
1503.02531; with batches of similar photos as in TAS-B, Hofstätter et al., 2021, arXiv 2104.06967).
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from lexlip.objectives.compared import Compared
from lexlip.objectives.truncation import truncate


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
