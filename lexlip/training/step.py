"""One optimisation step: the gradient of a whole batch, whatever part of it fits at a time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from lexlip.config import OptimConfig
from lexlip.models.lexlip import LexLIP
from lexlip.training.batches import Inputs

Loss = Callable[[dict[str, Tensor], Inputs], tuple[Tensor, dict[str, Tensor]]]
AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


def backward(
    model: LexLIP,
    inputs: Inputs,
    loss_of: Loss,
    micro_batch: int | None,
    precision: str,
    scaler: torch.amp.GradScaler,
) -> dict[str, Tensor]:
    """Add the gradient of the loss to the model's parameters; return the loss's parts.

    The contrastive loss and FLOPS see the whole batch. With `micro_batch` photos encoded at a time,
    every part is encoded twice: first without a graph, to compute the loss on all vectors and its
    gradient with respect to them, then with one, to carry that gradient on (Gao et al., 2021,
    "GradCache"). The result is that of one large batch.
    """
    if micro_batch is None or micro_batch >= len(inputs.pixels):
        loss, parts = loss_of(_encode(model, inputs, precision), inputs)
        scaler.scale(loss).backward()
        return parts

    chunks = inputs.split(micro_batch)
    generators, encoded = [], []
    with torch.no_grad():
        for chunk in chunks:
            generators.append(_generator_state(model.device))
            encoded.append(_encode(model, chunk, precision))
    after = _generator_state(model.device)
    whole = {name: torch.cat([part[name] for part in encoded]).requires_grad_() for name in encoded[0]}
    loss, parts = loss_of(whole, inputs)
    scaler.scale(loss).backward()
    starts = dict.fromkeys(whole, 0)
    for chunk, state in zip(chunks, generators, strict=True):
        _set_generator_state(model.device, state)  # the same dropout as the first time
        outputs = _encode(model, chunk, precision)
        used = []
        for name, output in outputs.items():
            grad = whole[name].grad
            if grad is not None and output.requires_grad:  # neither unused nor frozen
                used.append((output, grad[starts[name] : starts[name] + len(output)]))
            starts[name] += len(output)
        torch.autograd.backward([output for output, _ in used], [grad for _, grad in used])
    _set_generator_state(model.device, after)
    return parts


def _encode(model: LexLIP, inputs: Inputs, precision: str) -> dict[str, Tensor]:
    with torch.autocast(
        model.device.type, AUTOCAST.get(precision, torch.bfloat16), enabled=precision in AUTOCAST
    ):
        outputs: dict[str, Tensor] = model(inputs.pixels, inputs.ids, inputs.mask, inputs.present)
    return outputs


def _generator_state(device: torch.device) -> tuple[Tensor, Tensor | None]:
    return torch.get_rng_state(), torch.cuda.get_rng_state(device) if device.type == "cuda" else None


def _set_generator_state(device: torch.device, state: tuple[Tensor, Tensor | None]) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1], device)


def make_optimizer(model: LexLIP, config: OptimConfig) -> torch.optim.AdamW:
    """AdamW without weight decay on biases and norms; the learning rate scaled by the name's longest prefix.

    Parameters of scale 0 are frozen, and cost no gradient.
    """
    groups: dict[tuple[float, float], list[Tensor]] = {}
    for name, parameter in model.named_parameters():
        prefixes = [prefix for prefix in config.lr_scale if name.startswith(prefix)]
        scale = config.lr_scale[max(prefixes, key=len)] if prefixes else 1.0
        parameter.requires_grad_(scale > 0)
        if scale == 0:
            continue
        decay = config.weight_decay if parameter.ndim > 1 else 0.0
        groups.setdefault((scale, decay), []).append(parameter)
    return torch.optim.AdamW(
        [{"params": p, "weight_decay": decay, "scale": scale} for (scale, decay), p in groups.items()],
        lr=config.lr,
    )


def set_learning_rate(optimizer: torch.optim.Optimizer, config: OptimConfig, step: int, steps: int) -> float:
    """Linear warm-up, then linear decay to 0; returns the rate of scale 1 at `step` (from 0)."""
    warmup = max(1, round(config.warmup * steps))
    factor = min((step + 1) / warmup, (steps - step) / max(1, steps - warmup + 1))
    for group in optimizer.param_groups:
        group["lr"] = config.lr * factor * group["scale"]
    return config.lr * factor
