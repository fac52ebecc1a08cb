"""One optimisation step: the gradient of a whole batch, whatever part of it fits at a time."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lexlip.config import OptimConfig
from lexlip.errors import ConfigError
from lexlip.training.batches import Batch
from lexlip.training.device import autocast, pick_precision
from lexlip.training.loss import Totals, batch_loss, masked_loss
from lexlip.training.processes import Processes
from lexlip.training.trainee import EXTRA_PARTS, Tensors, Trainee


def train_step(
    trainee: Trainee,
    batch: Batch,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    config: OptimConfig,
    progress: float,
    processes: Processes,
) -> Tensors | None:
    """Gradient, clipping, optimizer, key encoders and queues, once each.

    Returns:
        This process's shares of the loss's parts, and the gradient's norm as "grad"; None if a process
        has no photo that could be read, and all go on to the next step.
    """
    totals = Totals.of(batch, processes)
    if totals.ready < processes.world:
        return None
    parts, keys = backward(trainee, batch, config, progress, processes, totals, scaler)
    processes.sum_gradients(trainee.parameters())
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(trainee.parameters(), config.clip)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    if keys is not None:
        trainee.follow()
        photos = processes.gather(batch.photos)[0]
        photos_of_texts = processes.gather(batch.photos[batch.image_of_text])[0]
        trainee.image_queue.enqueue(processes.gather(keys["image"])[0], photos)
        trainee.text_queue.enqueue(processes.gather(keys["text"])[0], photos_of_texts)
    return {**parts, "grad": norm / processes.world}


def backward(
    trainee: Trainee,
    batch: Batch,
    config: OptimConfig,
    progress: float,
    processes: Processes,
    totals: Totals,
    scaler: torch.amp.GradScaler,
) -> tuple[Tensors, Tensors | None]:
    """Add the gradient of this process's share of the loss to the parameters.

    The contrastive losses and FLOPS see the whole batch. With `micro_batch` photos encoded at a time,
    every part is encoded twice: first without a graph, to compute the loss on all vectors and its
    gradient with respect to them, then with one, to carry that gradient on (Gao et al., 2021,
    "GradCache"). The result is that of one large batch.

    Returns:
        The parts of the loss, and the keys to enqueue (None without queues).
    """
    device, objective = batch.pixels.device, trainee.config
    few = config.micro_batch is None or config.micro_batch >= len(batch.photos)
    chunks = [batch] if few else batch.split(config.micro_batch or 1)
    cast = autocast(pick_precision(config.precision, device), device)
    keys = None
    if objective.queue:
        with cast:
            keys = _join([trainee.key_vectors(chunk) for chunk in chunks])

    if few:
        with cast:
            raw, sums = trainee(batch)
        loss, parts = batch_loss(raw, keys, batch, trainee, progress, processes, totals)
        masked, masked_parts = masked_loss(sums, objective, totals)
        scaler.scale(loss + masked).backward()
        return _detached({**parts, **masked_parts, "loss": loss + masked}), keys

    states, encoded = [], []
    with torch.no_grad(), cast:
        for chunk in chunks:
            states.append(_generator_state(device))
            encoded.append(trainee.raw(chunk))
    after = _generator_state(device)
    whole = {name: value.requires_grad_() for name, value in _join(encoded).items()}
    loss, parts = batch_loss(whole, keys, batch, trainee, progress, processes, totals)
    if loss.requires_grad:
        scaler.scale(loss).backward()
    parts = {**parts, "loss": loss}
    starts = dict.fromkeys(whole, 0)
    for chunk, state in zip(chunks, states, strict=True):
        _set_generator_state(device, state)  # the same dropout as the first time
        with cast:
            raw, sums = trainee(chunk)
        masked, masked_parts = masked_loss(sums, objective, totals)
        for name, part in [*masked_parts.items(), ("loss", masked)]:
            parts[name] = parts.get(name, 0.0) + torch.as_tensor(part).detach()
        outputs: list[tuple[Tensor, Tensor | None]] = []
        if isinstance(masked, Tensor):
            outputs.append((scaler.scale(masked), None))
        for name, output in raw.items():
            grad = whole[name].grad
            if grad is not None and output.requires_grad:  # neither unused nor frozen
                outputs.append((output, grad[starts[name] : starts[name] + len(output)]))
            starts[name] += len(output)
        if outputs:
            torch.autograd.backward([output for output, _ in outputs], [grad for _, grad in outputs])
    _set_generator_state(device, after)
    return _detached(parts), keys


def _join(parts: list[Tensors]) -> Tensors:
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _detached(parts: Tensors) -> Tensors:
    return {name: part.detach() for name, part in parts.items()}


def _generator_state(device: torch.device) -> tuple[Tensor, Tensor | None]:
    return torch.get_rng_state(), torch.cuda.get_rng_state(device) if device.type == "cuda" else None


def _set_generator_state(device: torch.device, state: tuple[Tensor, Tensor | None]) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1], device)


def make_optimizer(trainee: Trainee, config: OptimConfig) -> torch.optim.AdamW:
    """AdamW without weight decay on biases and norms; the learning rate scaled by the name's longest prefix.

    Names are the model's ("image_encoder.body"), and those of what is left behind ("text_decoder").
    Parameters of scale 0 are frozen, and cost no gradient.

    Raises:
        ConfigError: a prefix is of no parameter.
    """
    groups: dict[tuple[float, float], list[Tensor]] = {}
    unused = {p for p in config.lr_scale if p.split(".")[0] not in EXTRA_PARTS}  # later phases lack those
    for name, parameter in trainee.named_parameters():
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


def set_learning_rate(optimizer: torch.optim.Optimizer, config: OptimConfig, step: int, steps: int) -> float:
    """Linear warm-up, then linear decay to 0; returns the rate of scale 1 at `step` (from 0)."""
    warmup = max(1, round(config.warmup * steps))
    factor = min((step + 1) / warmup, (steps - step) / max(1, steps - warmup + 1))
    for group in optimizer.param_groups:
        group["lr"] = config.lr * factor * group["scale"]
    return config.lr * factor
