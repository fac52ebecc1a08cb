"""Image encoders of a few thousand parameters, and what they keep for a backward pass."""

from collections.abc import Callable

import pytest
import torch
from timm.models import beit, eva, vision_transformer
from torch import Tensor, nn

from lexlip.config import ImageEncoderConfig
from lexlip.encoders.image import ImageEncoder

BEIT = ImageEncoderConfig(
    name="beit_base_patch16_224", options={"embed_dim": 24, "depth": 1, "num_heads": 2}, size=48
)
SWIN = ImageEncoderConfig(
    name="swin_tiny_patch4_window7_224",
    options={"embed_dim": 8, "depths": (1, 1, 1, 1), "num_heads": (1, 1, 1, 1)},
    size=64,
)
SMALL = {"embed_dim": 24, "depth": 2, "num_heads": 2}
TRANSFORMERS = {
    "ViT": (ImageEncoderConfig(name="vit_tiny_patch16_224", options=SMALL, size=96), vision_transformer),
    "ViT without positions of [CLS]": (
        ImageEncoderConfig(name="deit3_small_patch16_224", options=SMALL, size=96),
        vision_transformer,
    ),
    "EVA": (ImageEncoderConfig(name="eva02_tiny_patch14_224", options=SMALL, size=84), eva),
    "BEiT": (ImageEncoderConfig(name="beit_base_patch16_224", options=SMALL, size=96), beit),
    "BEiT v2": (ImageEncoderConfig(name="beitv2_base_patch16_224", options=SMALL, size=96), beit),
}
STRETCHED = ("pos_embed", "relative_position_bias_table")
transformers = pytest.mark.parametrize(("config", "module"), TRANSFORMERS.values(), ids=TRANSFORMERS)


def make(config: ImageEncoderConfig, width: int = 16) -> ImageEncoder:
    torch.manual_seed(0)
    return ImageEncoder(config, width).eval()


def with_random_positions(config: ImageEncoderConfig, width: int = 16) -> ImageEncoder:
    """An encoder whose positions matter: fresh ones are near zero, as is what a block of BEiT adds."""
    encoder = make(config, width)
    with torch.no_grad():
        for name, weight in encoder.named_parameters():
            if name.endswith((*STRETCHED, "position")):
                weight.normal_()
            elif "gamma" in name:
                weight.fill_(1)
            elif "attn" in name and weight.ndim == 2:
                weight.normal_(std=0.2)
    return encoder


def kept_and_gradients(encoder: nn.Module, encode: Callable[[], Tensor]) -> tuple[int, dict[str, Tensor]]:
    """Bytes kept for the backward pass, and the gradients."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    encoder.zero_grad()
    torch.manual_seed(1)  # of dropout
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        states = encode()
    (states * torch.linspace(-1, 1, states.numel()).view_as(states)).sum().backward()
    gradients = {n: p.grad.clone() for n, p in encoder.named_parameters() if p.grad is not None}
    return sum(kept.values()), gradients
