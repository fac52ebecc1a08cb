"""One optimisation step: the gradient of a whole batch, computed on as much of it as fits at a time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor, nn

from lexlip.config import OptimConfig
from lexlip.machine.device import autocast, pick_precision
from lexlip.objectives.compared import Compared
from lexlip.objectives.losses import batch_loss
from lexlip.training.batches import Batch, Words
from lexlip.training.distributed import Processes
from lexlip.training.masking import NOT_MASKED
from lexlip.training.method import CAPTION_LOSSES, Method, Tensors


class Skipped(Enum):
    """Why a step changed nothing."""

    NO_PHOTO = "a process has no readable photo"
    OVERFLOW = "a number was too large for fp16, whose scale is now halved"
    NOT_FINITE = "its gradient is not finite"


@dataclass(frozen=True)
class Totals:
    """Numbers over the batch of all processes, which means are taken with.

    Attributes:
        images: photos.
        texts: captions.
        encoder_masked, decoder_masked: masked positions that are predicted.
        ready: processes that have a caption.
    """

    images: float
    texts: float
    encoder_masked: float
    decoder_masked: float
    ready: float

    @classmethod
    def of(cls, batch: Batch, processes: Processes) -> Totals:
        """Count a batch."""
        masked = [0.0, 0.0]
        if batch.masked is not None:
            labels = batch.masked.encoder_labels, batch.masked.decoder_labels
            masked = [float((row != NOT_MASKED).sum()) for row in labels]
        texts = len(batch.owners)
        return cls(*processes.sum([len(batch.photos), texts, *masked, float(texts > 0)]))


def train_step(
    method: Method,
    batch: Batch,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    config: OptimConfig,
    progress: float,
    processes: Processes,
) -> Tensors | Skipped:
    """Do one step: gradient, clipping, optimizer, then key encoders and queues.

    Returns:
        This process's shares of the losses, and the gradient's norm as "grad"; or why all processes skip the
        step, which then changes neither weights nor queues.
    """
    totals = Totals.of(batch, processes)
    if totals.ready < processes.world:
        return Skipped.NO_PHOTO
    parts, keys = backward(method, batch, config, progress, processes, totals, scaler)
    processes.sum_gradients(method.parameters())
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(method.parameters(), config.clip)
    finite = bool(torch.isfinite(norm))
    if finite:
        scaler.step(optimizer)
    scaled = not finite and scaler.get_scale() > 1
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    if not finite:
        return Skipped.OVERFLOW if scaled else Skipped.NOT_FINITE
    if keys is not None:
        method.follow()
        photos = batch.photos.indices
        of_images, of_texts = (processes.gather(of)[0] for of in (photos, photos[batch.owners]))
        method.image_queue.enqueue(processes.gather(keys["image"])[0], of_images)
        method.text_queue.enqueue(processes.gather(keys["text"])[0], of_texts)
    return {**parts, "grad": norm / processes.world}


def backward(
    method: Method,
    batch: Batch,
    config: OptimConfig,
    progress: float,
    processes: Processes,
    totals: Totals,
    scaler: torch.amp.GradScaler,
) -> tuple[Tensors, Tensors | None]:
    """Add the gradient of this process's share of the loss to the parameters.

    The contrastive losses and FLOPS see the whole batch. If only `micro_batch` photos are encoded at a time,
    each part is encoded twice: first without a graph, to compute the loss of all vectors and its gradient
    with respect to them, then with a graph, to carry that gradient on (GradCache, Gao et al., 2021). Without
    dropout the result is that of one large batch; with dropout, what is dropped depends on the parts.

    Returns:
        The losses by name, and the keys to enqueue (None without queues).
    """
    device = batch.owners.device
    whole = config.micro_batch is None or config.micro_batch >= len(batch.photos)
    chunks = [batch] if whole else batch.split(config.micro_batch or 1)
    cast = autocast(pick_precision(config.precision, device), device)
    keys = None
    if method.objective.queue:
        with cast:
            keys = _concat([method.key_vectors(chunk) for chunk in chunks])

    if whole:
        with cast:
            raw, sums = method(batch)
        loss, parts = whole_batch_loss(method, batch, raw, keys, progress, processes, totals)
        of_captions, caption_parts = caption_loss(method, sums, totals)
        processes.overlap()
        scaler.scale(loss + of_captions).backward()
        return _detached({**parts, **caption_parts, "loss": loss + of_captions}), keys

    generators, encoded = [], []
    with torch.no_grad(), cast:
        for chunk in chunks:
            generators.append(_generator_state(device))
            encoded.append(method.raw(chunk))
    after = _generator_state(device)
    raw = {name: value.requires_grad_() for name, value in _concat(encoded).items()}
    loss, parts = whole_batch_loss(method, batch, raw, keys, progress, processes, totals)
    if loss.requires_grad:
        scaler.scale(loss).backward()
    parts = {**parts, "loss": loss}
    starts = dict.fromkeys(raw, 0)
    for chunk, generator in zip(chunks, generators, strict=True):
        _set_generator_state(device, generator)  # the same dropout as the first time
        if chunk is chunks[-1]:
            processes.overlap()
        with cast:
            part, sums = method(chunk)
        of_captions, caption_parts = caption_loss(method, sums, totals)
        for name, value in [*caption_parts.items(), ("loss", of_captions)]:
            parts[name] = parts.get(name, 0.0) + torch.as_tensor(value).detach()
        outputs: list[tuple[Tensor, Tensor | None]] = []
        if isinstance(of_captions, Tensor):
            outputs.append((scaler.scale(of_captions), None))
        for name, output in part.items():
            grad = raw[name].grad
            if grad is not None and output.requires_grad:  # neither unused nor frozen
                outputs.append((output, grad[starts[name] : starts[name] + len(output)]))
            starts[name] += len(output)
        if outputs:
            torch.autograd.backward([output for output, _ in outputs], [grad for _, grad in outputs])
    _set_generator_state(device, after)
    return _detached(parts), keys


def whole_batch_loss(
    method: Method,
    batch: Batch,
    raw: Tensors,
    keys: Tensors | None,
    progress: float,
    processes: Processes,
    totals: Totals,
) -> tuple[Tensor, Tensors]:
    """Return this process's share of the losses over the whole batch: their weighted sum, and the parts."""
    model = method.model
    if not raw:
        return batch.owners.new_zeros((), dtype=torch.float32), {}
    images, texts = model.vectors(raw["image"]), model.vectors(raw["text"])
    composed = bags = word_counts = None
    if "composed_image" in raw:
        composed = model.vectors(raw["composed_image"]), model.vectors(raw["composed_text"])
    if batch.words is not None:
        bags = model.bag_of_words(_words_present(batch.words, texts))
        word_counts = _word_counts(batch.words, images)
    taught = None
    if method.teacher is not None and method.objective.distillation:
        taught = method.teacher.scores(batch, processes)
    loss, parts = batch_loss(
        Compared(
            config=method.objective,
            metric=model.metric,
            progress=progress,
            images=images,
            texts=texts,
            owners=batch.owners,
            photos=batch.photos.indices,
            image_logits=raw["image"],
            composed=composed,
            keys=None if keys is None else method.with_queues(keys),
            bags=bags,
            word_counts=word_counts,
            taught=taught,
            total_images=totals.images,
            total_texts=totals.texts,
            processes=processes.world,
            gather=processes.gather,
        )
    )
    if model.can.words:
        parts["terms_image"] = (images > 0).sum() / totals.images
        parts["terms_text"] = (texts > 0).sum() / totals.texts
    return loss, parts


def caption_loss(method: Method, sums: Tensors, totals: Totals) -> tuple[Tensor | float, Tensors]:
    """Return this process's share of the losses of single captions: their weighted sum, and the parts."""
    parts = {
        loss.name: sums[loss.name] / max(1.0, loss.factor * getattr(totals, loss.denominator))
        for loss in CAPTION_LOSSES
        if loss.name in sums
    }
    return sum((getattr(method.objective, name) * part for name, part in parts.items()), 0.0), parts


def _words_present(words: Words, texts: Tensor) -> Tensor:
    """Return bool [T, V]: which words each caption contains; `texts` are vectors [T, V]."""
    present = torch.zeros(texts.shape, dtype=torch.bool, device=texts.device)
    present[words.of_captions[0], words.of_captions[1]] = True
    return present


def _word_counts(words: Words, images: Tensor) -> Tensor:
    """Return float [B, V]: how many of a photo's captions contain each word; `images` are vectors [B, V]."""
    (rows, columns), (photos, size) = words.of_photos, images.shape
    counts = torch.zeros(photos * size, device=rows.device)
    counts.index_add_(0, rows * size + columns, torch.ones(len(rows), device=rows.device))
    return counts.view(photos, size)


def _concat(parts: list[Tensors]) -> Tensors:
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _detached(parts: Tensors) -> Tensors:
    return {name: part.detach() for name, part in parts.items()}


def _generator_state(device: torch.device) -> tuple[Tensor, Tensor | None]:
    return torch.get_rng_state(), torch.cuda.get_rng_state(device) if device.type == "cuda" else None


def _set_generator_state(device: torch.device, state: tuple[Tensor, Tensor | None]) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1], device)
