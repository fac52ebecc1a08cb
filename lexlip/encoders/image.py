"""Image encoders by timm name: a square photo in, token states out."""

from __future__ import annotations

import functools
import math
import warnings
from dataclasses import replace
from typing import Any

import timm
import torch
import torch.nn.functional as F
from PIL import Image, ImageOps
from safetensors.torch import load_file
from timm.layers import resample_abs_pos_embed, resize_rel_pos_bias_table
from timm.models.beit import Attention, Beit, gen_relative_position_index
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
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


_INTERPOLATING = ["vision_transformer", "deit", "eva"]  # timm's modules that interpolate positions in forward


class ImageEncoder(nn.Module):
    """A timm model without its classifier; a convolutional feature map becomes a list of tokens.

    Photos may have another size than `config.size` where the model allows it: ViT, EVA, BEiT and
    convolutional ones do. What is stored about positions is then interpolated for that forward pass, as
    timm does when it loads weights into a model of another size, and its gradient flows back.

    Batch norms always use their stored statistics: with batch statistics the vector of a photo, and
    so the gradient, would depend on which others share its micro-batch or its process.

    Args:
        config: which model, its input size, and fresh Transformer layers on top, if any.
        width: D of those layers.
        load_weights: fetch the weights that `config.weights` names; False where a checkpoint follows.

    Raises:
        ModelError: unknown model name, or weights that cannot be read or do not fit.
    """

    body: Any  # a timm model
    mean: Tensor
    std: Tensor
    layers: nn.TransformerEncoder | None

    def __init__(self, config: ImageEncoderConfig, width: int, load_weights: bool = True) -> None:
        super().__init__()
        self.config = config
        self.checkpointing = False
        pretrained = load_weights and config.weights == "pretrained"
        if config.options.get("img_size", config.size) != config.size:
            raise ModelError(
                f"'{config.name}' takes no photos of {_pixels(config.size)}: its options ask for img_size "
                f"({config.options['img_size']})"
            )
        try:
            known, options = timm.get_pretrained_cfg(config.name), config.options
            if known is not None and known.fixed_input_size:  # timm makes or resizes position embeddings
                options = {"img_size": config.size, **options}
                if timm.models.is_model_in_modules(config.name, _INTERPOLATING):
                    options = {"dynamic_img_size": True, **options}
            self.body = timm.create_model(config.name, pretrained=pretrained, num_classes=0, **options)
        except Exception as error:  # timm and the hub raise many kinds
            why = " ".join(str(error).split())
            raise ModelError(f"timm cannot make the image encoder '{config.name}': {why}") from error
        if load_weights and config.weights and not pretrained:
            _load_weights(self.body, config.weights)
        if isinstance(self.body, Beit):
            _interpolate_relative_positions(self.body)
        self.body.to(memory_format=torch.channels_last)
        self.register_buffer("mean", torch.tensor(config.mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(config.std).view(3, 1, 1), persistent=False)
        self.prefix_tokens = int(getattr(self.body, "num_prefix_tokens", 0))
        try:
            with torch.no_grad():
                self.eval()
                tokens = self.body_tokens(torch.zeros(1, 3, config.size, config.size))
        except (AssertionError, RuntimeError, ValueError) as error:
            raise self._wrong_size(config.size, error) from error
        self.positions, self.width = self.token_shape = tokens.shape[1:]  # P, C
        self.layers = None
        if config.layers:
            self.reduce = nn.Linear(self.width, width)
            self.width = width
            self.position = nn.Parameter(torch.randn(self.positions, width) * 0.02)
            layer = nn.TransformerEncoderLayer(
                width, max(1, width // 64), 4 * width, activation="gelu", batch_first=True, norm_first=True
            )
            self.layers = nn.TransformerEncoder(layer, config.layers, enable_nested_tensor=False)

    def forward(self, photos: Tensor) -> Tensor:
        """Token states [B, P, D_image] of photos; P depends on S.

        Args:
            photos: uint8 [B, 3, S, S], or their `tokens`.

        Raises:
            ModelError: the model takes no photos of S x S pixels.
        """
        tokens = photos.float() if photos.is_floating_point() else self.tokens(photos)
        return tokens if self.layers is None else self._deepen(tokens, photos.shape[-1])

    def _deepen(self, tokens: Tensor, size: int) -> Tensor:
        """The fresh layers' states [B, P, D] of tokens [B, P, C] of photos of size x size pixels."""
        assert self.layers is not None
        try:
            position = resample_positions(self.position, tokens.shape[1], self.prefix_tokens)
        except ValueError as error:
            raise self._wrong_size(size, error) from error
        states: Tensor = self.reduce(tokens) + position
        if not (self.checkpointing and torch.is_grad_enabled()):
            deep: Tensor = self.layers(states)
            return deep
        for layer in self.layers.layers:
            states = checkpoint(layer, states, use_reentrant=False)
        return states

    @property
    def patch_width(self) -> int:
        """Numbers that a patch is regressed to, see `masked`."""
        return int(self.token_shape[1] if self.layers is not None else 3 * self._cell(self.config.size) ** 2)

    def masked(self, photos: Tensor, share: float) -> tuple[Tensor, Tensor, Tensor]:
        """States of photos some of whose patches are blank, drawn by torch's generator, as many in each.

        With fresh layers a patch is a token of the body, which stays frozen or not as it is; else it is a
        square of pixels, as the models that begin with patches have them.

        Args:
            photos: uint8 [B, 3, S, S]; with fresh layers also their `tokens`.
            share: of the patches.

        Returns:
            States [B, P, D_image], bool [B, P] which tokens are of blank patches, and what those were,
            [blank patches of all, patch_width], in order.

        Raises:
            ModelError: there are no fresh layers, and photos are no whole number of patches.
        """
        if self.layers is not None:
            tokens = photos.float() if photos.is_floating_point() else self.tokens(photos)
            blank = self._draw(len(tokens), tokens.shape[1], share, tokens.device)
            states = self._deepen(tokens.masked_fill(blank[:, :, None], 0), photos.shape[-1])
            return states, blank, tokens[blank].detach()
        cell, size = self._cell(photos.shape[-1]), photos.shape[-1]
        normalised = (photos.float() / 255 - self.mean) / self.std
        grid = size // cell
        blank = self._draw(len(photos), self.prefix_tokens + grid**2, share, photos.device)
        patches = normalised.view(-1, 3, grid, cell, grid, cell).permute(0, 2, 4, 1, 3, 5).flatten(1, 2)
        of_patches = blank[:, self.prefix_tokens :]
        targets = patches[of_patches].flatten(1)
        hidden = of_patches.view(-1, 1, grid, grid).float()
        seen = 1 - F.interpolate(hidden, scale_factor=float(cell), mode="nearest")
        states = self.body_tokens((normalised * seen).contiguous(memory_format=torch.channels_last))
        return states, blank, targets

    def _cell(self, size: int) -> int:
        """Pixels of a patch's side."""
        grid = math.isqrt(self.positions - self.prefix_tokens)
        side = self.config.size / grid
        if side != int(side) or size % side:
            raise ModelError(
                f"the {grid} x {grid} tokens of '{self.config.name}' are no patches of photos of"
                f" {_pixels(size)}: give it model.image.layers to mask its tokens"
            )
        return int(side)

    def _draw(self, photos: int, tokens: int, share: float, device: torch.device) -> Tensor:
        """bool [photos, tokens]: a share of each photo's tokens, never the first ones that are no patches."""
        lots = torch.rand(photos, tokens, device=device)
        lots[:, : self.prefix_tokens] = 2
        number = max(1, round(share * (tokens - self.prefix_tokens)))
        blank = torch.zeros(photos, tokens, dtype=torch.bool, device=device)
        return blank.scatter_(1, lots.argsort(dim=1)[:, :number], True)

    def tokens(self, pixels: Tensor) -> Tensor:
        """What the timm model makes of photos, [B, P, C], before the fresh layers; pixels uint8 [B, 3, S, S].

        Raises:
            ModelError: the model takes no photos of S x S pixels.
        """
        size = pixels.shape[-1]
        try:
            normalised = (pixels.float() / 255 - self.mean) / self.std
            return self.body_tokens(normalised.contiguous(memory_format=torch.channels_last))
        except (AssertionError, RuntimeError, ValueError) as error:
            if size == self.config.size or isinstance(error, torch.OutOfMemoryError):
                raise
            raise self._wrong_size(size, error) from error

    def body_tokens(self, normalised: Tensor) -> Tensor:
        """As `tokens`, of photos that are normalised already, float32 [B, 3, S, S]; errors are torch's."""
        features = self.body.forward_features(normalised)
        if features.ndim == 4:  # [B, C, H, W], or [B, H, W, C] for models such as Swin
            channels_last = features.shape[-1] == getattr(self.body, "num_features", None)
            if channels_last and features.shape[1] != features.shape[-1]:
                return features.flatten(1, 2)
            return features.flatten(2).transpose(1, 2)
        return features

    def resized(self, size: int) -> ImageEncoder:
        """An encoder with these weights whose own size is another, to go on training at that size.

        What is stored about positions is interpolated once; the result is as `forward` at that size.

        Args:
            size: pixels of the square input.

        Raises:
            ModelError: the model takes no photos of that size, or timm has no way to resize its weights.
        """
        options = dict(self.config.options)
        if "img_size" in options:
            options["img_size"] = size
        config = replace(self.config, size=size, options=options)
        encoder = ImageEncoder(config, self.width, load_weights=False)
        weights = self.state_dict()
        try:
            for name, weight in encoder.state_dict().items():
                if weights[name].shape != weight.shape:
                    weights[name] = _resized_weight(name, weights[name], weight.shape, encoder)
        except ValueError as error:
            raise self._wrong_size(size, error) from error
        encoder.load_state_dict(weights)
        for old, new in zip(self.parameters(), encoder.parameters(), strict=True):
            new.requires_grad_(old.requires_grad)
        if self.checkpointing:
            encoder.checkpoint_activations()
        return encoder.to(self.mean.device).train(self.training)

    def checkpoint_activations(self, enabled: bool = True) -> None:
        """Keep the inputs of blocks alone in training and compute the rest again: less memory, more time.

        Raises:
            ModelError: timm cannot do so with this model.
        """
        try:
            self.body.set_grad_checkpointing(enabled)
        except (AssertionError, AttributeError) as error:
            raise ModelError(
                f"timm cannot checkpoint the activations of '{self.config.name}'; take a smaller micro-batch "
                "to save memory"
            ) from error
        self.checkpointing = enabled

    def _wrong_size(self, size: int, error: Exception) -> ModelError:
        why = " ".join(str(error).split())
        return ModelError(f"'{self.config.name}' takes no photos of {_pixels(size)}: {why}")

    def train(self, mode: bool = True) -> ImageEncoder:
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()
        return self


class _AnySizeAttention(Attention):
    """BEiT's attention at any size: the relative positions of its own grid, stretched over another.

    Which grid is told by the number of tokens, so that checkpointed blocks see the same one again.
    """

    def forward(self, x: Tensor, shared_rel_pos_bias: Tensor | None = None) -> Tensor:
        self.grid = math.isqrt(x.shape[1] - 1)  # all but [CLS]
        states: Tensor = super().forward(x, shared_rel_pos_bias)
        return states

    def _get_rel_pos_bias(self) -> Tensor:
        own = self.window_size[0]
        if self.grid == own:
            bias: Tensor = super()._get_rel_pos_bias()
            return bias
        table = self.relative_position_bias_table  # [distances, heads]
        stretch, index = _relative_positions(own, self.grid, table.device)
        with torch.autocast(table.device.type, enabled=False):
            return (stretch @ table)[index].permute(2, 0, 1).unsqueeze(0)  # [1, heads, P, P]


def _interpolate_relative_positions(body: Beit) -> None:
    if body.pos_embed is None and body.rel_pos_bias is None:  # as in all BEiTs that timm has
        for block in body.blocks:
            block.attn.__class__ = _AnySizeAttention
        body.patch_embed.strict_img_size = False


@functools.lru_cache(maxsize=16)
def _relative_positions(own: int, grid: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """What BEiT's position biases need on another grid than their own.

    timm's geometric interpolation is linear in the table, so what it makes of a unit matrix is its own
    matrix, through which a gradient can flow, and which takes no detour through the CPU at each step.

    Returns:
        Matrix float32 [distances of `grid`, distances of `own`], and int64 [P, P]: the distance, a row of
        the resized table, between each two tokens.
    """
    with torch.inference_mode(False), torch.no_grad():  # the cache outlives the mode of its first caller
        index = gen_relative_position_index((grid, grid))
        distances = (2 * own - 1) ** 2 + 3
        stretch = _resized_table(torch.eye(distances), grid, int(index.max()) + 1)
        return stretch.to(device), index.to(device)


def _resized_table(table: Tensor, grid: int, distances: int) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, on how timm indexes
        resized: Tensor = resize_rel_pos_bias_table(table, (grid, grid), (distances, table.shape[1]))
    return resized


def resample_positions(position: Tensor, tokens: int, prefix: int) -> Tensor:
    """Position embeddings [P, D] of a square grid as [tokens, D] of another; the first `prefix` stay."""
    if len(position) == tokens:
        return position
    before, after = math.isqrt(len(position) - prefix), math.isqrt(tokens - prefix)
    if before**2 + prefix != len(position) or after**2 + prefix != tokens:
        raise ValueError(f"its {tokens} tokens are no square")
    resampled: Tensor = resample_abs_pos_embed(
        position[None], [after, after], [before, before], num_prefix_tokens=prefix
    )
    return resampled[0]


def _resized_weight(name: str, weight: Tensor, shape: torch.Size, to: ImageEncoder) -> Tensor:
    """A weight of an encoder in the shape that it has in one of another size."""
    if name == "position":
        return resample_positions(weight, shape[0], to.prefix_tokens)
    if name == "body.pos_embed":
        return resample_positions(weight[0], shape[1], shape[1] - to.body.patch_embed.num_patches)[None]
    owner, _, kind = name.rpartition(".")
    if kind == "relative_position_bias_table":
        attention: Any = to.get_submodule(owner)
        return _resized_table(weight, attention.window_size[0], shape[0])
    raise ModelError(
        f"'{to.config.name}' cannot be resized to {_pixels(to.config.size)}: nothing is known of its {name}"
    )


def _pixels(size: int) -> str:
    return f"{size} x {size} pixels"


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
