"""Image encoders by timm name: a square photo in, token states out."""

from __future__ import annotations

import timm
import torch
from PIL import Image, ImageOps
from safetensors.torch import load_file
from torch import Tensor, nn
from torchvision.transforms.functional import pil_to_tensor

from lexlip.config import ImageEncoderConfig
from lexlip.errors import ModelError


def square(photo: Image.Image, config: ImageEncoderConfig) -> Image.Image:
    """A photo squashed or centre-cropped to the square that the encoder takes."""
    size = (config.size, config.size)
    if config.resize == "squash":
        return photo.resize(size, Image.Resampling.BICUBIC)
    return ImageOps.fit(photo, size, Image.Resampling.BICUBIC)


def to_pixels(photo: Image.Image, config: ImageEncoderConfig) -> Tensor:
    """A photo as the encoder takes it: uint8 [3, size, size]."""
    return pil_to_tensor(square(photo, config))


class ImageEncoder(nn.Module):
    """A timm model without its classifier; a convolutional feature map becomes a list of tokens.

    Batch norms always use their stored statistics: with batch statistics the vector of a photo, and
    so the gradient, would depend on which others share its micro-batch or its process.

    Args:
        config: which model, its input size, and fresh Transformer layers on top, if any.
        width: D of those layers.
        load_weights: fetch the weights that `config.weights` names; False where a checkpoint follows.

    Raises:
        ModelError: unknown model name, or weights that cannot be read or do not fit.
    """

    mean: Tensor
    std: Tensor
    layers: nn.Module | None

    def __init__(self, config: ImageEncoderConfig, width: int, load_weights: bool = True) -> None:
        super().__init__()
        self.config = config
        pretrained = load_weights and config.weights == "pretrained"
        try:
            known, options = timm.get_pretrained_cfg(config.name), config.options
            if known is not None and known.fixed_input_size:  # timm makes or resizes position embeddings
                options = {"img_size": config.size, **options}
            self.body = timm.create_model(config.name, pretrained=pretrained, num_classes=0, **options)
        except Exception as error:  # timm and the hub raise many kinds
            why = " ".join(str(error).split())
            raise ModelError(f"timm cannot make the image encoder '{config.name}': {why}") from error
        if load_weights and config.weights and not pretrained:
            _load_weights(self.body, config.weights)
        self.body.to(memory_format=torch.channels_last)
        self.register_buffer("mean", torch.tensor(config.mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(config.std).view(3, 1, 1), persistent=False)
        self.prefix_tokens = int(getattr(self.body, "num_prefix_tokens", 0))
        try:
            with torch.no_grad():
                self.eval()
                tokens = self._tokens(torch.zeros(1, 3, config.size, config.size))
        except (AssertionError, RuntimeError, ValueError) as error:
            size = f"{config.size} x {config.size}"
            raise ModelError(f"'{config.name}' takes no photos of {size} pixels: {error}") from error
        self.positions, self.width = tokens.shape[1:]
        self.layers = None
        if config.layers:
            self.reduce = nn.Linear(self.width, width)
            self.width = width
            self.position = nn.Parameter(torch.randn(self.positions, width) * 0.02)
            layer = nn.TransformerEncoderLayer(
                width, max(1, width // 64), 4 * width, activation="gelu", batch_first=True, norm_first=True
            )
            self.layers = nn.TransformerEncoder(layer, config.layers, enable_nested_tensor=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """Token states [B, P, D_image] of photos, uint8 [B, 3, size, size]."""
        normalised = (pixels.float() / 255 - self.mean) / self.std
        tokens = self._tokens(normalised.contiguous(memory_format=torch.channels_last))
        if self.layers is not None:
            tokens = self.layers(self.reduce(tokens) + self.position)
        return tokens

    def _tokens(self, pixels: Tensor) -> Tensor:
        features = self.body.forward_features(pixels)  # type: ignore[operator]
        if features.ndim == 4:  # [B, C, H, W], or [B, H, W, C] for models such as Swin
            channels_last = features.shape[-1] == getattr(self.body, "num_features", None)
            if channels_last and features.shape[1] != features.shape[-1]:
                return features.flatten(1, 2)
            return features.flatten(2).transpose(1, 2)
        return features

    def train(self, mode: bool = True) -> ImageEncoder:
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()
        return self


def _load_weights(body: nn.Module, path: str) -> None:
    try:
        weights = load_file(path)
    except Exception as error:
        why = " ".join(str(error).split())
        raise ModelError(f"cannot read the image encoder's weights from {path}: {why}") from error
    expected = body.state_dict()
    missing = [key for key in expected if key not in weights]
    wrong = [key for key in expected if key in weights and weights[key].shape != expected[key].shape]
    if missing or wrong:
        key = (missing + wrong)[0]
        found = f"shape {tuple(weights[key].shape)}" if key in weights else "nothing"
        raise ModelError(f"{path}: expected {key} of shape {tuple(expected[key].shape)}, found {found}")
    body.load_state_dict({key: weights[key] for key in expected})
