"""The loss of a step: the objectives that the config switches on, over the batch of all processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from lexlip.config import ObjectiveConfig
from lexlip.models.lexlip import LexLIP
from lexlip.objectives.anchor import align, predict_words
from lexlip.objectives.contrastive import contrastive, momentum_contrastive
from lexlip.objectives.flops import flops, quadratic_warmup
from lexlip.objectives.triplet import hardest_triplet
from lexlip.objectives.truncation import truncate
from lexlip.training.batches import Batch
from lexlip.training.masking import NOT_MASKED
from lexlip.training.processes import Processes
from lexlip.training.trainee import Tensors, Trainee


@dataclass(frozen=True)
class Totals:
    """Numbers over all processes, that means are taken with."""

    images: float
    texts: float
    encoder_masked: float
    decoder_masked: float
    ready: float  # processes that have any caption

    @classmethod
    def of(cls, batch: Batch, processes: Processes) -> Totals:
        """Count a batch."""
        masked = [
            int((labels != NOT_MASKED).sum()) for labels in (batch.encoder_labels, batch.decoder_labels)
        ]
        texts = len(batch.image_of_text)
        return cls(*processes.sum([len(batch.photos), texts, *masked, float(texts > 0)]))


def masked_loss(sums: Tensors, config: ObjectiveConfig, totals: Totals) -> tuple[Tensor | float, Tensors]:
    """Losses of single captions: this process's share of each mean.

    It is taken over masked positions (Eq. 7, 13, 14), over captions or over pairs.

    Args:
        sums: losses summed over some of the batch, see `Trainee.forward`.
        config: the weights.
        totals: numbers of the whole batch.

    Returns:
        The weighted sum, and its parts.
    """
    counts = {
        **dict.fromkeys(("mlm", "vmlm"), totals.encoder_masked),
        **dict.fromkeys(("image_to_text", "text_to_text"), totals.decoder_masked),
        "smrm": totals.texts,
        "matching": 2 * totals.texts,  # a pair and none for each
    }
    parts = {name: total / max(1.0, counts[name]) for name, total in sums.items()}
    return sum((getattr(config, name) * part for name, part in parts.items()), 0.0), parts


def batch_loss(
    raw: Tensors,
    keys: Tensors | None,
    batch: Batch,
    trainee: Trainee,
    progress: float,
    processes: Processes,
    totals: Totals,
) -> tuple[Tensor, Tensors]:
    """The losses that compare the batch with itself or with the queues, this process's share of them.

    The shares of all processes add up to the loss of one process with the whole batch.

    Args:
        raw: see `Trainee.raw`, of this process's part of the batch.
        keys: see `Trainee.key_vectors`; None without queues.
        batch: this process's part.
        trainee: the model and its queues.
        progress: share of the run that is done, for the FLOPS warm-up.
        processes: who else holds a part.
        totals: numbers of the whole batch.

    Returns:
        The share of the weighted sum, and the shares of its unweighted parts for the log.
    """
    config, model = trainee.config, trainee.model
    if not raw:
        return batch.photos.new_zeros((), dtype=torch.float32), {}
    images, texts, owners = model.vectors(raw["image"]), model.vectors(raw["text"]), batch.image_of_text
    text_share, image_share = len(texts) / totals.texts, len(images) / totals.images
    in_batch = bool(config.anchor_contrastive or config.triplet or (keys is None and config.contrastive))
    if in_batch:
        all_images, image_start = processes.gather(images)
        all_texts, text_start = processes.gather(texts)
        all_owners = processes.gather(owners + image_start)[0]
        rows = slice(text_start, text_start + len(texts))

    def compare(images: Tensor, texts: Tensor, composed: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """Of gathered vectors, this process's share."""
        same = config.same_image_negatives
        return contrastive(images, texts, all_owners, config.temperature, same, rows, model.metric, composed)

    def compare_with_queue(images: Tensor, texts: Tensor) -> Tensor:
        assert keys is not None
        losses = []
        for queries, positives, queue in (
            (texts, keys["image"][owners], trainee.image_queue),
            (images[owners], keys["text"], trainee.text_queue),
        ):
            held, photos = queue.contents()
            same = None
            if not config.same_image_negatives:
                same = batch.photos[owners][:, None] == photos[None, :]
            losses.append(momentum_contrastive(queries, positives, held, same, config.temperature))
        return text_share * (losses[0] + losses[1]) / 2

    def contrast() -> Tensor:
        if keys is not None:
            return compare_with_queue(images, texts)
        if not config.composed_negatives:
            return compare(all_images, all_texts)
        composed = (model.vectors(raw[name]) for name in ("composed_image", "composed_text"))
        composed_images, composed_texts = (processes.gather(vectors)[0] for vectors in composed)
        return compare(all_images, all_texts, (composed_images, composed_texts))

    def contrast_hardest() -> Tensor:
        return hardest_triplet(all_images, all_texts, all_owners, config.margin, rows)

    def contrast_truncated() -> Tensor:
        """Documents as the index holds them: images that captions ask for, captions that images ask for."""
        losses = []
        for k in config.topk:
            if keys is not None:  # each side in turn is the document, and the other's keys ask
                losses.append(compare_with_queue(truncate(images, k), truncate(texts, k)))
            else:
                losses.append(compare(truncate(all_images, k), all_texts) / 2)
                losses.append(compare(all_images, truncate(all_texts, k)) / 2)
        return sum(losses, start=images.new_zeros(())) / len(config.topk)

    def spread(vectors: Tensor, total: float) -> Tensor:
        if config.flops_unit:
            vectors = F.normalize(vectors, dim=1)
        sums = processes.gather(vectors.sum(dim=0, keepdim=True))[0]
        return flops(sums.sum(dim=0) / total) / processes.world

    warm = quadratic_warmup(progress, config.flops_warmup)
    truncated = config.topk_contrastive if config.topk and config.contrastive else 0.0
    terms: list[tuple[str, float, float, Callable[[], Tensor]]] = [
        ("contrastive", config.contrastive, 1.0, contrast),
        ("topk", config.contrastive * truncated, 1.0, contrast_truncated),
        ("triplet", config.triplet, 1.0, contrast_hardest),
        ("flops_image", config.flops_image, warm, lambda: spread(images, totals.images)),
        ("flops_text", config.flops_text, warm, lambda: spread(texts, totals.texts)),
    ]
    if config.anchors:
        assert isinstance(model, LexLIP)
        bags = model.bag_of_words(_present(batch, len(model.vocabulary)))
        counts = _word_counts(batch, len(model.vocabulary))

        def contrast_bags() -> Tensor:
            return compare(all_images, processes.gather(bags)[0])

        def predict() -> Tensor:
            return image_share * predict_words(config.softmax_scale * raw["image"], counts)

        terms += [
            ("anchor", config.anchor_contrastive, 1.0, contrast_bags),
            ("align", config.anchor_align, 1.0, lambda: text_share * align(texts, bags)),
            ("words", config.anchor_words, 1.0, predict),
        ]
    parts, loss = {}, images.new_zeros(())
    for name, weight, factor, compute in terms:
        if weight > 0:
            parts[name] = compute()
            loss = loss + weight * factor * parts[name]
    if isinstance(model, LexLIP):
        parts["terms_image"] = (images > 0).sum() / totals.images
        parts["terms_text"] = (texts > 0).sum() / totals.texts
    return loss, parts


def _present(batch: Batch, vocabulary_size: int) -> Tensor:
    """bool [T, V]: which words each caption holds."""
    present = batch.mask.new_zeros(len(batch.ids), vocabulary_size)
    present[batch.text_words[0], batch.text_words[1]] = True
    return present


def _word_counts(batch: Batch, vocabulary_size: int) -> Tensor:
    """float [B, V]: how many of a photo's captions hold the word."""
    rows, columns = batch.photo_words
    counts = torch.zeros(len(batch.photos) * vocabulary_size, device=rows.device)
    counts.index_add_(0, rows * vocabulary_size + columns, torch.ones(len(rows), device=rows.device))
    return counts.view(len(batch.photos), vocabulary_size)
