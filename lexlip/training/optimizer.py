"""AdamW and its learning rate."""

from __future__ import annotations

import torch
from torch import Tensor

from lexlip.config import OptimConfig
from lexlip.errors import ConfigError
from lexlip.training.method import OPTIONAL_PARTS, Method


def make_optimizer(method: Method, config: OptimConfig) -> torch.optim.AdamW:
    """Return AdamW, without weight decay on biases and norms.

    The learning rate is scaled by the longest prefix of a parameter's name in `config.lr_scale`. Names are
    the model's ("image_encoder.body") and those of what only training has ("text_decoder"). Parameters of
    scale 0 are frozen, and cost no gradient.

    Raises:
        ConfigError: a prefix fits no parameter.
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


def set_learning_rate(optimizer: torch.optim.Optimizer, config: OptimConfig, step: int, steps: int) -> float:
    """Set the rate for `step` (from 0): linear warm-up, then linear decay to 0; return that of scale 1."""
    warmup = max(1, round(config.warmup * steps))
    factor = min((step + 1) / warmup, (steps - step) / max(1, steps - warmup + 1))
    for group in optimizer.param_groups:
        group["lr"] = config.lr * factor * group["scale"]
    return config.lr * factor
