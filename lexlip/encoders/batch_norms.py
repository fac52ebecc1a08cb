"""Folds batch norms into the convolutions before them: the same vectors with fewer passes over memory."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights


def fold_batch_norms(model: nn.Module, pixels: Tensor) -> int:
    """Change a model in place, for encoding only: it can then be neither trained nor saved.

    A batch norm is folded if its input is exactly a convolution's output. What else it does, such as the
    activation inside timm's batch norms, is kept.

    Args:
        model: an encoder.
        pixels: an input of the model, which is run once to see which module follows which.

    Returns:
        The number of batch norms that were folded.
    """
    outputs: dict[int, tuple[nn.Conv2d, Tensor]] = {}  # by the tensor's id; keeps the tensor, so ids differ
    before: dict[nn.BatchNorm2d, nn.Conv2d] = {}

    def note_output(conv: nn.Conv2d, inputs: tuple[Tensor], output: Tensor) -> None:
        outputs[id(output)] = conv, output

    def note_input(norm: nn.BatchNorm2d, inputs: tuple[Tensor]) -> None:
        if id(inputs[0]) in outputs:
            before[norm] = outputs[id(inputs[0])][0]

    hooks = []
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            hooks.append(module.register_forward_hook(note_output))
        elif isinstance(module, nn.BatchNorm2d):
            hooks.append(module.register_forward_pre_hook(note_input))
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
    """Change the convolution, and return the module that replaces the batch norm."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    conv.weight, conv.bias = fuse_conv_bn_weights(
        conv.weight, conv.bias, norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
    )
    activation = getattr(norm, "act", None)
    return activation if isinstance(activation, nn.Module) else nn.Identity()
