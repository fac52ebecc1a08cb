"""Against autograd's float64, and torch's own convolutions."""

import copy

import pytest
import timm
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lexlip.encoders.depthwise import FastDepthwise, _FloatBackward

SHAPES = [  # channels, groups, kernel, stride, padding, dilation
    (6, 6, 5, 1, 2, 1),
    (6, 6, 3, 2, 1, 1),
    (4, 4, 3, 2, 0, 1),
    (4, 4, 3, 1, 2, 2),
    (6, 3, 3, 1, 1, 1),  # not depthwise
    (6, 1, 3, 1, 1, 1),
]


def watched(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Return a list that gets the weights of each convolution with its own backward pass."""
    taken, apply = list[Tensor](), _FloatBackward.apply
    monkeypatch.setattr(_FloatBackward, "apply", lambda *given: taken.append(given[1]) or apply(*given))
    return taken


def gradients(conv: nn.Conv2d, x: Tensor, outside: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    x = x.clone().requires_grad_()
    out = conv(x)
    conv.zero_grad()
    out.backward(outside.to(out.dtype))
    assert x.grad is not None
    assert conv.weight.grad is not None
    return out.detach().double(), x.grad.double(), conv.weight.grad.double()


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_those_of_double_precision(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    channels, groups, kernel, stride, padding, dilation = shape
    random = torch.Generator().manual_seed(0)
    conv = nn.Conv2d(channels, channels, kernel, stride, padding, dilation, groups, bias=False)
    x = torch.randn(3, channels, 9, 11, generator=random).bfloat16().float()  # what bf16 can hold
    with torch.no_grad():
        conv.weight.copy_(torch.randn(conv.weight.shape, generator=random).bfloat16())
    outside = torch.randn(conv(x).shape, generator=random).bfloat16()
    exact = gradients(copy.deepcopy(conv).double(), x.double(), outside)

    taken = watched(monkeypatch)
    with torch.autocast("cpu", torch.bfloat16), FastDepthwise():
        found = gradients(conv, x, outside)
    assert bool(taken) == (groups == channels)
    for value, wanted in zip(found, exact, strict=True):
        torch.testing.assert_close(value, wanted, rtol=0.02, atol=0.02 * float(wanted.abs().mean()))


def test_nothing_else_is_touched() -> None:
    """Without autocast, or without gradients, and for a convolution with a bias."""
    x, weight, bias = torch.randn(2, 4, 6, 6), torch.randn(4, 1, 3, 3, requires_grad=True), torch.randn(4)
    with FastDepthwise():
        assert torch.equal(F.conv2d(x, weight, groups=4), torch.conv2d(x, weight, groups=4))
        with torch.autocast("cpu", torch.bfloat16):
            biased = F.conv2d(x, weight, bias, 1, 1, 1, 4)
            with torch.no_grad():
                plain = F.conv2d(x, weight, None, 1, 1, 1, 4)
    assert biased.grad_fn is not None
    assert "Float" not in type(biased.grad_fn).__name__
    assert plain.dtype == torch.bfloat16


def test_a_body_is_as_near_to_float32_as_in_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    """timm's bodies go this way, also where they pad as TensorFlow does."""
    body = timm.create_model("tf_efficientnet_lite0", num_classes=0, global_pool="").eval()
    x, taken = torch.rand(2, 3, 64, 64), watched(monkeypatch)

    def gradient() -> Tensor:
        body.zero_grad()
        body(x).float().square().mean().backward()
        return torch.cat([p.grad.flatten() for p in body.parameters() if p.grad is not None])

    exact = gradient()
    with torch.autocast("cpu", torch.bfloat16):
        plain = gradient()
        with FastDepthwise():
            found = gradient()
    filters = [m for m in body.modules() if isinstance(m, nn.Conv2d) and m.groups > 1]
    assert len(taken) == len(filters) == 16
    near = [float(F.cosine_similarity(exact, other, dim=0)) for other in (plain, found)]
    assert near[1] > near[0] - 0.01 > 0.9
