"""Folds batch norms into the convolutions before them: the same vectors with fewer passes over memory."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights


def fold_batch_norms(model: nn.Module, pixels: Tensor) -> int:
    """Change a model in place, for encoding only: it can then be neither trained nor saved.

    A batch norm is folded if it takes, as it is, what a convolution gives; what it does besides, such as the
    activation that timm's have, stays.

    Args:
        model: one that encodes.
        pixels: what it takes; it is run once, to see what follows what.

    Returns:
        How many were folded.
    """
    given: dict[int, tuple[nn.Conv2d, Tensor]] = {}  # by the tensor's id; holds it, so that ids stay distinct
    before: dict[nn.BatchNorm2d, nn.Conv2d] = {}

    def gave(conv: nn.Conv2d, inputs: tuple[Tensor], output: Tensor) -> None:
        given[id(output)] = conv, output

    def takes(norm: nn.BatchNorm2d, inputs: tuple[Tensor]) -> None:
        if id(inputs[0]) in given:
            before[norm] = given[id(inputs[0])][0]

    hooks = []
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            hooks.append(module.register_forward_hook(gave))
        elif isinstance(module, nn.BatchNorm2d):
            hooks.append(module.register_forward_pre_hook(takes))
    with torch.inference_mode():
        model(pixels)
    for hook in hooks:
        hook.remove()
    for path, norm in list(model.named_modules()):
        if norm in before:
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, _fold(before[norm], norm))
    return len(before)


def _fold(conv: nn.Conv2d, norm: nn.BatchNorm2d) -> nn.Module:
    """Changes the convolution, and returns what stands for the batch norm from now on."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    conv.weight, conv.bias = fuse_conv_bn_weights(
        conv.weight, conv.bias, norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
    )
    activation = getattr(norm, "act", None)
    return activation if isinstance(activation, nn.Module) else nn.Identity()
