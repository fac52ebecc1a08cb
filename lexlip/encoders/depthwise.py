"""Depthwise convolutions whose gradient is computed in float32 on a CPU.

In bf16 torch takes up to a hundred times as long with a stride of two, and three times with filters of 5 x 5:
half of a step of an EfficientNet. The forward pass stays in bf16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode


class _FloatBackward(torch.autograd.Function):
    """A convolution of x [B, C, H, W] by weight [C, 1, k, k], both bf16, with a backward pass in float32."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, *shape: Any) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.shape = shape  # stride, padding, dilation, groups
        return F.conv2d(x, weight, None, *shape)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, _ = torch.ops.aten.convolution_backward(
            *(tensor.float() for tensor in (*gradients, x, weight)),
            None,
            *ctx.shape[:3],
            False,
            (0, 0),
            ctx.shape[3],
            (*ctx.needs_input_grad[:2], False),
        )
        return *(None if g is None else g.to(x.dtype) for g in (of_x, of_weight)), None, None, None, None


class FastDepthwise(TorchFunctionMode):
    """Within it, depthwise convolutions that are trained on a CPU in bf16 have their gradient in float32."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is torch.conv2d and not kwargs and len(args) == 7:
            x, weight, bias, *shape = args
            if (
                shape[3] > 1
                and bias is None
                and weight.shape[1] == 1
                and isinstance(shape[1], tuple)
                and x.device.type == "cpu"
                and torch.is_grad_enabled()
                and torch.is_autocast_enabled("cpu")
                and torch.get_autocast_dtype("cpu") == torch.bfloat16
            ):
                halves = x.to(torch.bfloat16), weight.to(torch.bfloat16)
                return _FloatBackward.apply(*halves, *shape)
        return func(*args, **(kwargs or {}))
