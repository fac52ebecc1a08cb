"""One optimisation step: AdamW, and the gradient of a whole batch, encoded in parts if it does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from lexlip.config import OptimConfig
from lexlip.errors import ConfigError
from lexlip.machine.device import autocast, pick_precision
from lexlip.objectives.losses import Compared, batch_loss, control_expansion
from lexlip.training.batches import NOT_MASKED, Batch, Words
from lexlip.training.distributed import Processes
from lexlip.training.method import CAPTION_LOSSES, OPTIONAL_PARTS, Method, Tensors


def make_optimizer(method: Method, config: OptimConfig) -> torch.optim.AdamW:
    """Return AdamW, without weight decay on biases and norms.

    The learning rate is scaled by the longest prefix of a parameter's name in `config.lr_scale`. Names are
    the model's ("image_encoder.body") and those of what only training has ("text_decoder"). Parameters of
    scale 0 are frozen, and cost no gradient. ConfigError: a prefix fits no parameter.
    """
    groups: dict[tuple[float, float], list[Tensor]] = {}
    unused = {p for p in config.lr_scale if p.split(".")[0] not in OPTIONAL_PARTS}  # later phases lack those
    for name, parameter in method.named_parameters():
        name = name.removeprefix("model.")
        if name.startswith("keys."):
            continue
        prefixes = [p for p in config.lr_scale if name == p or name.startswith(p.rstrip(".") + ".")]
        unused.difference_update(prefixes)
        scale = config.lr_scale[max(prefixes, key=len)] if prefixes else 1.0
        parameter.requires_grad_(scale > 0)
        if scale == 0:
            continue
        decay = config.weight_decay if parameter.ndim > 1 else 0.0
        groups.setdefault((scale, decay), []).append(parameter)
    if unused:
        raise ConfigError(f"optim.lr_scale names '{min(unused)}', but the model has no weights of that name")
    return torch.optim.AdamW(
        [{"params": p, "weight_decay": decay, "scale": scale} for (scale, decay), p in groups.items()],
        lr=config.lr,
        betas=config.betas,
    )


class SkippedStep(Enum):
    NO_PHOTO = "a process has no readable photo"
    OVERFLOW = "a number was too large for fp16, whose scale is now halved"
    NOT_FINITE = "its gradient is not finite"


@dataclass(frozen=True)
class Totals:
    """What is counted over the batch of all processes, to divide sums by."""

    images: float
    texts: float
    encoder_masked: float  # masked positions that are predicted, as are decoder_masked
    decoder_masked: float
    ready: float  # processes that have a caption

    @classmethod
    def of(cls, batch: Batch, processes: Processes) -> Totals:
        masked = [0.0, 0.0]
        if batch.masked is not None:
            labels = batch.masked.encoder_labels, batch.masked.decoder_labels
            masked = [float((row != NOT_MASKED).sum()) for row in labels]
        texts = len(batch.owners)
        return cls(*processes.sum([len(batch.photos), texts, *masked, float(texts > 0)]))


@dataclass(frozen=True)
class Step:
    """A batch of one process, and what a step with it needs."""

    method: Method
    batch: Batch
    config: OptimConfig
    progress: float  # share of the run that is done
    processes: Processes
    scaler: torch.amp.GradScaler  # of the gradients, for fp16

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Compute in the precision of `config` within a `with` block.

        On a CPU in bf16, attention is plain products: torch's fused one multiplies the few tokens of each
        caption and head alone, and its gradient takes most of a step.
        """
        device = self.batch.owners.device
        precision = pick_precision(self.config.precision, device)
        plain = device.type == "cpu" and precision == "bf16"
        with autocast(precision, device), sdpa_kernel(SDPBackend.MATH) if plain else nullcontext():
            yield

    @cached_property
    def totals(self) -> Totals:
        """What all processes count together; each of them asks when its step begins."""
        return Totals.of(self.batch, self.processes)


def train_step(step: Step, optimizer: torch.optim.Optimizer) -> Tensors | SkippedStep:
    """Do one step: gradient, clipping, optimizer, then key encoders and queues.

    Returns this process's shares of the losses, and the gradient's norm as "grad"; or why all processes skip
    the step, which then changes neither weights nor queues.
    """
    method, batch, processes, scaler = step.method, step.batch, step.processes, step.scaler
    if step.totals.ready < processes.world:
        return SkippedStep.NO_PHOTO
    parts, keys = backward(step)
    processes.sum_gradients(method.parameters())
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(method.parameters(), step.config.clip)
    finite = bool(torch.isfinite(norm))
    if finite:
        scaler.step(optimizer)
    scaled = not finite and scaler.get_scale() > 1
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    if not finite:
        return SkippedStep.OVERFLOW if scaled else SkippedStep.NOT_FINITE
    if keys is not None:
        method.follow()
        photos = batch.photos.indices
        of_images, of_texts = (processes.gather(of)[0] for of in (photos, photos[batch.owners]))
        method.image_queue.enqueue(processes.gather(keys["image"])[0], of_images)
        method.text_queue.enqueue(processes.gather(keys["text"])[0], of_texts)
    return {**parts, "grad": norm / processes.world}


def backward(step: Step) -> tuple[Tensors, Tensors | None]:
    """Add the gradient of this process's share of the loss to the parameters.

    The contrastive losses and FLOPS see the whole batch. If only `micro_batch` photos are encoded at a time,
    each part is encoded twice: first without a graph, to compute the loss of all vectors and its gradient
    with respect to them, then with a graph, to carry that gradient on (GradCache, Gao et al., 2021). Without
    dropout the result is that of one large batch; with dropout, what is dropped depends on the parts.

    Returns the losses by name, and the keys to enqueue (None without queues).
    """
    method, batch, micro = step.method, step.batch, step.config.micro_batch
    whole = micro is None or micro >= len(batch.photos)
    chunks = [batch] if whole else batch.split(micro or 1)
    keys = None
    if method.objective.queue:
        with step.computing():
            keys = _concat([method.key_vectors(chunk) for chunk in chunks])
    if not whole:
        return _detached(_by_parts(step, chunks, keys)), keys
    with step.computing():
        raw, sums = method(batch)
    loss, parts = whole_batch_loss(step, raw, keys)
    of_captions, caption_parts = caption_loss(step, sums)
    step.processes.overlap()
    step.scaler.scale(loss + of_captions).backward()
    return _detached({**parts, **caption_parts, "loss": loss + of_captions}), keys


def gradient_shares(step: Step) -> dict[str, float]:
    """Return each loss's share of the gradient of the model's weights: its norm over the sum of all norms.

    Each norm is that of the loss times its weight, and the norms are those of this process's part of the
    batch. Empty if a batch is encoded in parts, or if a GPU has no room to keep the graph for all losses.
    torch's generators stay as they are.
    """
    micro, device = step.config.micro_batch, step.batch.owners.device
    if (micro is not None and micro < len(step.batch.photos)) or step.totals.ready < step.processes.world:
        return {}
    state = _generator_state(device)
    try:
        norms = _gradient_norms(step)
    except torch.OutOfMemoryError:
        return {}
    finally:
        _set_generator_state(device, state)
    whole = sum(norms.values())
    return {name: norm / whole for name, norm in norms.items()} if whole > 0 else {}


def _gradient_norms(step: Step) -> dict[str, float]:
    """Return the norm of each loss's gradient, times its weight, with respect to the model's weights."""
    method, batch = step.method, step.batch
    with step.computing():
        keys = method.key_vectors(batch) if method.objective.queue else None
        raw, sums = method(batch)
    loss, parts = whole_batch_loss(step, raw, keys)
    of_captions, caption_parts = caption_loss(step, sums)
    losses = {name: part for name, part in {**parts, **caption_parts}.items() if part.requires_grad}
    total = loss + of_captions
    factors = torch.autograd.grad(total, list(losses.values()), retain_graph=True)  # their weights
    weights = [weight for weight in method.model.parameters() if weight.requires_grad]
    norms = {}
    for (name, part), factor in zip(losses.items(), factors, strict=True):
        scaled = step.scaler.scale(factor * part)
        found = torch.autograd.grad(scaled, weights, retain_graph=True, allow_unused=True)
        norms[name] = float(
            torch.stack([g.float().square().sum() for g in found if g is not None]).sum().sqrt()
        )
    return norms


def _by_parts(step: Step, chunks: list[Batch], keys: Tensors | None) -> Tensors:
    """Add the gradient of a batch that is encoded in parts; return all losses."""
    method, scaler = step.method, step.scaler
    device, states, encoded = chunks[0].owners.device, [], []
    with torch.no_grad(), step.computing():
        for chunk in chunks:
            states.append(_generator_state(device))
            encoded.append(method.raw(chunk))
    after = _generator_state(device)
    raw = {name: value.requires_grad_() for name, value in _concat(encoded).items()}
    loss, parts = whole_batch_loss(step, raw, keys)
    if loss.requires_grad:
        scaler.scale(loss).backward()
    parts = {**parts, "loss": loss}
    sizes = {name: [len(part[name]) for part in encoded] for name in raw}
    grads = {name: value.grad.split(sizes[name]) for name, value in raw.items() if value.grad is not None}
    for number, (chunk, state) in enumerate(zip(chunks, states, strict=True)):
        _set_generator_state(device, state)  # the same dropout as the first time
        if chunk is chunks[-1]:
            step.processes.overlap()
        with step.computing():
            part, sums = method(chunk)
        of_captions, caption_parts = caption_loss(step, sums)
        for name, value in [*caption_parts.items(), ("loss", of_captions)]:
            parts[name] = parts.get(name, 0.0) + torch.as_tensor(value).detach()
        outputs: list[tuple[Tensor, Tensor | None]] = [
            (output, grads[name][number])
            for name, output in part.items()
            if name in grads and output.requires_grad  # neither unused nor frozen
        ]
        if isinstance(of_captions, Tensor):
            outputs.append((scaler.scale(of_captions), None))
        if outputs:
            torch.autograd.backward([output for output, _ in outputs], [grad for _, grad in outputs])
    _set_generator_state(device, after)
    return parts


def whole_batch_loss(step: Step, raw: Tensors, keys: Tensors | None) -> tuple[Tensor, Tensors]:
    """Return this process's share of the losses over the whole batch: their weighted sum, and the parts."""
    method, batch, processes, totals = step.method, step.batch, step.processes, step.totals
    model = method.model
    if not raw:
        return batch.owners.new_zeros((), dtype=torch.float32), {}
    images, texts = model.vectors(raw["image"]), model.vectors(raw["text"])
    composed = bags = word_counts = joint = present = None
    if "composed_image" in raw:
        composed = model.vectors(raw["composed_image"]), model.vectors(raw["composed_text"])
    if "joint_image" in raw:
        joint = raw["joint_image"], raw["joint_text"]
    if batch.words is not None:
        present = _words_present(batch.words, texts)
        bags = model.bag_of_words(present) if method.objective.anchors else None
        word_counts = _word_counts(batch.words, images)
    if method.objective.expansion_warmup > step.progress:
        assert present is not None
        texts = control_expansion(texts, present, step.progress / method.objective.expansion_warmup)
    taught = None
    if method.teacher is not None and method.objective.distillation:
        taught = method.teacher.scores(batch, processes)
    loss, parts = batch_loss(
        Compared(
            config=method.objective,
            metric=model.metric,
            progress=step.progress,
            images=images,
            texts=texts,
            owners=batch.owners,
            photos=batch.photos.indices,
            image_logits=raw["image"],
            composed=composed,
            keys=None if keys is None else method.with_queues(keys),
            joint=joint,
            present=present,
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


def caption_loss(step: Step, sums: Tensors) -> tuple[Tensor | float, Tensors]:
    """Return this process's share of the losses of single captions: their weighted sum, and the parts."""
    objective, totals = step.method.objective, step.totals
    parts = {
        loss.name: sums[loss.name] / max(1.0, loss.factor * getattr(totals, loss.denominator))
        for loss in CAPTION_LOSSES
        if loss.name in sums
    }
    return sum((getattr(objective, name) * part for name, part in parts.items()), 0.0), parts


def _words_present(words: Words, texts: Tensor) -> Tensor:
    """Return bool [T, V]: which words each caption contains; `texts` are vectors [T, V]."""
    present = torch.zeros_like(texts, dtype=torch.bool)
    present[tuple(words.of_captions)] = True
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
