"""Image encoders by timm name: a square photo in, token states out.

Shapes: B photos, S pixels along a side, P tokens, C channels of a timm model's tokens, D width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import timm
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import load_file
from timm.models.beit import Beit
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights
from torch.utils.checkpoint import checkpoint

from lexlip.config import ImageEncoderConfig
from lexlip.data.upright import as_seen, pixel_array
from lexlip.encoders.depthwise import FastDepthwise
from lexlip.encoders.hub_access import check_reachable, folder_here, reason
from lexlip.encoders.positions import allow_any_size, resample_positions, resize_bias_table
from lexlip.errors import ConfigError, DataError, ModelError

_INTERPOLATING = ["vision_transformer", "deit", "eva"]  # timm modules that interpolate positions in forward


def to_pixels(photo: Image.Image, config: ImageEncoderConfig) -> Tensor:
    """Return a photo in RGB as the encoder takes it: uint8 [3, size, size]."""
    return torch.from_numpy(pixel_array(photo, config))


def to_batch(photos: Image.Image | Iterable[Image.Image] | Tensor, config: ImageEncoderConfig) -> Tensor:
    """Return photos as the encoder takes them: uint8 [B, 3, size, size].

    They are pictures of any size and mode, or a single one, which are shown upright and on white as files are
    when they are indexed; or uint8 [B, 3, H, W], taken as it is, as regions [B, N, …] are. DataError:
    they are something else.
    """
    if config.regions is not None and isinstance(photos, Tensor) and photos.ndim == 3:
        return photos
    if isinstance(photos, Tensor):
        if photos.dtype == torch.uint8 and photos.ndim == 4 and photos.shape[1] == 3:
            return photos
        got = f"{photos.dtype} of shape {list(photos.shape)}"
    else:
        pictures = list(photos) if isinstance(photos, Iterable) else [photos]
        wrong = next((type(one).__name__ for one in pictures if not isinstance(one, Image.Image)), None)
        if wrong is None:
            pixels = [to_pixels(as_seen(picture), config) for picture in pictures]
            return torch.stack(pixels) if pixels else torch.zeros(0, 3, config.size, config.size).byte()
        got = wrong
    raise DataError(
        f"photos are pictures of PIL, or a tensor of torch, uint8 of shape [B, 3, H, W], and not {got}: open"
        " files with PIL's Image.open, and arrays with Image.fromarray"
    )


class _Stopped(Exception):
    """The frozen part of a timm model is done."""


class ImageEncoder(nn.Module):
    """A timm model without its classifier; a convolutional feature map becomes a list of tokens.

    Tokens pass the model's last norm, also where timm applies it to their mean only (as in BEiT). On top may
    be fresh Transformer layers, of `width` D.

    Photos may have another size than `config.size` if the model allows it: ViT, EVA, BEiT and convolutional
    models do. Stored positions are then interpolated for that forward pass, as timm does when it loads
    weights into a model of another size, and their gradient flows back.

    Batch norms always use their stored statistics. With batch statistics the vector of a photo, and so the
    gradient, would depend on the other photos of its micro-batch or process.

    `load_weights` is false if a checkpoint's follow. ModelError: unknown model name, or weights that cannot
    be read or do not fit.
    """

    body: Any  # a timm model
    mean: Tensor
    std: Tensor
    layers: nn.TransformerEncoder | None

    def __init__(self, config: ImageEncoderConfig, width: int, load_weights: bool = True) -> None:
        super().__init__()
        self.config = config
        self.checkpointing = False
        self.frozen_until: str | None = None  # the body's module before which states are at hand; see `begin`
        self.without_gradient: Callable[[Tensor], Tensor] | None = None  # what then computes `tokens`
        self.body = _make_body(config if load_weights else _of_checkpoint(config))
        if load_weights and config.weights not in (None, "pretrained"):
            _load_weights(self.body, str(config.weights))
        if isinstance(self.body, Beit):
            allow_any_size(self.body)
        self.body.to(memory_format=torch.channels_last)
        self.register_buffer("mean", torch.tensor(config.mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(config.std).view(3, 1, 1), persistent=False)
        self.prefix_tokens = int(getattr(self.body, "num_prefix_tokens", 0))
        try:
            with torch.no_grad():
                self.eval()
                tokens = self.body_tokens(torch.zeros(1, 3, config.size, config.size))
        except (AssertionError, RuntimeError, ValueError) as error:
            raise self._wrong_size(_pixels(config.size), error) from error
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

    def forward(self, pixels: Tensor) -> Tensor:
        """Return token states [B, P, D] of photos uint8 [B, 3, S, S] (Eq. 1), or ModelError: see `tokens`."""
        return self.deepen(self.tokens(pixels))

    def tokens(self, pixels: Tensor) -> Tensor:
        """Return the timm model's tokens [B, P, C] of photos uint8 [B, 3, S, S], before the fresh layers.

        ModelError: the model takes no photos of S x S pixels.
        """
        size = pixels.shape[-1]
        if self.without_gradient and size == self.config.size and not torch.is_grad_enabled():
            return self.without_gradient(pixels)
        try:
            normalised = ((pixels.float() / 255 - self.mean) / self.std).to(self.mean.dtype)
            return self.body_tokens(normalised.contiguous(memory_format=torch.channels_last))
        except (AssertionError, RuntimeError, ValueError) as error:
            if size == self.config.size or isinstance(error, torch.OutOfMemoryError):
                raise
            raise self._wrong_size(_pixels(size), error) from error

    def body_tokens(self, normalised: Tensor) -> Tensor:
        """Return the same of normalised photos, float32 [B, 3, S, S]; torch's errors pass."""
        with FastDepthwise():
            features = self.body.forward_features(normalised)
        norm = norm_after_pooling(self.body)
        if norm is not None:
            features = norm(features)
        if features.ndim == 4:  # [B, C, H, W], or [B, H, W, C] for models such as Swin
            channels_last = features.shape[-1] == getattr(self.body, "num_features", None)
            if channels_last and features.shape[1] != features.shape[-1]:
                return features.flatten(1, 2)
            return features.flatten(2).transpose(1, 2)
        return features

    def own_pooled(self, states: Tensor) -> Tensor:
        """Return the one state [B, C] that the timm model's own pooling makes of its tokens [B, P, C].

        SigLIP's attends to them from a vector that was learned.
        """
        pooled: Tensor = self.body.pool(states)
        return pooled

    # ---- a body whose first modules are frozen ----

    def first_trained(self) -> str | None:
        """Return the block of the timm model before which nothing is trained, such as "blocks.5".

        None: nothing of the timm model is trained. ConfigError: training does not begin at a block.
        """
        trained = [
            (name, module)
            for name, module in self.body.named_modules()
            if any(weight.requires_grad for weight in module.parameters(recurse=False))
        ]
        if not trained:
            return None
        if trained[0][1] is self.body:
            raise ConfigError(f"the training of '{self.config.name}' begins at its positions")
        order: list[str] = []
        hooks = [
            module.register_forward_pre_hook(lambda _, inputs, name=name: order.append(name))
            for name, module in trained
        ]
        with torch.no_grad():
            self.tokens(self.blank())
        for hook in hooks:
            hook.remove()
        owner, _, rest = order[0].partition(".")
        if not rest or not isinstance(self.body.get_submodule(owner), (nn.Sequential, nn.ModuleList)):
            raise ConfigError(f"the training of '{self.config.name}' begins at its {order[0]}")
        return f"{owner}.{rest.partition('.')[0]}"

    def begin(self, pixels: Tensor) -> Tensor:
        """Return what the timm model's frozen part makes of photos, which `finish` goes on from."""
        if self.frozen_until is None:
            return self.tokens(pixels)
        states: list[Tensor] = []

        def stop(_: nn.Module, inputs: tuple[Tensor]) -> None:
            states.append(inputs[0])
            raise _Stopped

        with self._before_training(stop), suppress(_Stopped):
            self.tokens(pixels)
        return states[0]

    def finish(self, states: Tensor) -> Tensor:
        """Return the tokens [B, P, C] of photos of which `begin` made such states."""
        if self.frozen_until is None:
            return states
        if states.ndim == 4:
            states = states.contiguous(memory_format=torch.channels_last)
        # what comes before runs for one blank photo, and is replaced
        with self._before_training(lambda _, inputs: (states, *inputs[1:])):
            return self.tokens(self.blank())

    @contextmanager
    def _before_training(self, hook: Callable[[nn.Module, Any], Any]) -> Iterator[None]:
        handle = self.body.get_submodule(self.frozen_until).register_forward_pre_hook(hook)
        try:
            yield
        finally:
            handle.remove()

    def blank(self) -> Tensor:
        """Return one black photo."""
        size = self.config.size
        return torch.zeros(1, 3, size, size, dtype=torch.uint8, device=self.mean.device)

    def deepen(self, tokens: Tensor) -> Tensor:
        """Return what the added layers make of tokens [B, P, C], if there are any: states [B, P, D]."""
        if self.layers is None:
            return tokens
        try:
            position = resample_positions(self.position, tokens.shape[1], self.prefix_tokens)
        except ValueError as error:
            raise self._wrong_size(f"{tokens.shape[1]} tokens", error) from error
        states: Tensor = self.reduce(tokens) + position
        if not (self.checkpointing and torch.is_grad_enabled()):
            deep: Tensor = self.layers(states)
            return deep
        for layer in self.layers.layers:
            states = checkpoint(layer, states, use_reentrant=False)
        return states

    # ---- masked patches ----

    @property
    def chances_width(self) -> int:
        """Into how many classes `chances` divides a token."""
        return int(self.token_shape[1])

    def chances(self, tokens: Tensor) -> Tensor:
        """Return the softmax of tokens [B, P, C] over their channels."""
        return tokens.float().softmax(dim=2)

    @property
    def patch_width(self) -> int:
        """How many numbers a patch is regressed to; see `masked_tokens` and `masked_pixels`."""
        return int(self.token_shape[1] if self.layers is not None else 3 * self._cell(self.config.size) ** 2)

    def masked_tokens(self, tokens: Tensor, share: float) -> tuple[Tensor, Tensor, Tensor]:
        """Return the states of photos with a share of their tokens [B, P, C] blank; for fresh layers.

        Returns states [B, P, D]; bool [B, P], which tokens are blank, drawn by torch's generator; and what
        those were, [blank tokens of all photos, C], in order.
        """
        tokens = tokens.float()
        blank = self._draw(len(tokens), tokens.shape[1], share, tokens.device)
        return self.deepen(tokens.masked_fill(blank[:, :, None], 0)), blank, tokens[blank].detach()

    def masked_pixels(self, pixels: Tensor, share: float) -> tuple[Tensor, Tensor, Tensor]:
        """Return the states of photos uint8 [B, 3, S, S] with a share of their patches blank.

        Returns states [B, P, D_image]; bool [B, P], which tokens are of blank patches, drawn by torch's
        generator; and the normalised pixels of those, [blank patches of all photos, patch_width], in order.
        ModelError: a photo is not a whole number of patches.
        """
        cell, size = self._cell(pixels.shape[-1]), pixels.shape[-1]
        normalised = (pixels.float() / 255 - self.mean) / self.std
        grid = size // cell
        blank = self._draw(len(pixels), self.prefix_tokens + grid**2, share, pixels.device)
        patches = normalised.view(-1, 3, grid, cell, grid, cell).permute(0, 2, 4, 1, 3, 5).flatten(1, 2)
        of_patches = blank[:, self.prefix_tokens :]
        targets = patches[of_patches].flatten(1)
        hidden = of_patches.view(-1, 1, grid, grid).float()
        visible = 1 - F.interpolate(hidden, scale_factor=float(cell), mode="nearest")
        states = self.body_tokens((normalised * visible).contiguous(memory_format=torch.channels_last))
        return states, blank, targets

    def _cell(self, size: int) -> int:
        grid = math.isqrt(self.positions - self.prefix_tokens)
        side = self.config.size / grid
        if side != int(side) or size % side:
            raise ModelError(
                f"the {grid} x {grid} tokens of '{self.config.name}' are not patches of photos of"
                f" {_pixels(size)}: set model.image.layers to mask tokens instead"
            )
        return int(side)

    def _draw(self, photos: int, tokens: int, share: float, device: torch.device) -> Tensor:
        """Return bool [photos, tokens]: a share of each photo's tokens, never the prefix such as [CLS]."""
        lots = torch.rand(photos, tokens, device=device)
        lots[:, : self.prefix_tokens] = 2
        number = max(1, round(share * (tokens - self.prefix_tokens)))
        blank = torch.zeros(photos, tokens, dtype=torch.bool, device=device)
        return blank.scatter_(1, lots.argsort(dim=1)[:, :number], True)

    # ---- changes ----

    def resized(self, size: int) -> ImageEncoder:
        """Return an encoder with these weights for photos of another size, to go on training at that size.

        Stored positions are interpolated once; the result is that of `forward` at that size. ModelError: the
        model takes no photos of that size, or timm cannot resize its weights.
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
            raise self._wrong_size(_pixels(size), error) from error
        encoder.load_state_dict(weights)
        for old, new in zip(self.parameters(), encoder.parameters(), strict=True):
            new.requires_grad_(old.requires_grad)
        if self.checkpointing:
            encoder.checkpoint_activations()
        return encoder.to(self.mean.device).train(self.training)

    def checkpoint_activations(self) -> None:
        """Recompute activations in the backward pass; ModelError: timm does not support it."""
        try:
            self.body.set_grad_checkpointing()
        except (AssertionError, AttributeError) as error:
            raise ModelError(
                f"timm cannot checkpoint the activations of '{self.config.name}'; use a smaller micro-batch "
                "to save memory"
            ) from error
        self.checkpointing = True

    def train(self, mode: bool = True) -> ImageEncoder:
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()
        return self

    def _wrong_size(self, what: str, error: Exception) -> ModelError:
        return ModelError(f"'{self.config.name}' takes no photos of {what}: {reason(error)}")


def norm_after_pooling(body: nn.Module) -> nn.Module | None:
    """Return the last norm of a timm model if timm applies it after pooling, so that tokens go without it.

    BEiT and other ViTs that average their tokens have it as `fc_norm`, and hierarchical models such as DaViT,
    Hiera and ConvNeXt as `head.norm`. A batch norm there belongs to the classifier.
    """
    if isinstance(getattr(body, "norm", None), nn.Identity):
        norm = getattr(body, "fc_norm", None)
        if isinstance(norm, nn.Module) and not isinstance(norm, nn.Identity):
            return norm
    norm = getattr(getattr(body, "head", None), "norm", None)
    if not isinstance(norm, nn.Module) or isinstance(norm, (nn.Identity, nn.modules.batchnorm._BatchNorm)):
        return None
    return norm


def _of_checkpoint(config: ImageEncoderConfig) -> ImageEncoderConfig:
    """Return what makes the encoder of a checkpoint, whose config may be a stranger's: nothing is fetched."""
    source, separator, name = config.name.partition(":")  # such as hf-hub:OWNER/NAME
    here = f"local-dir:{folder_here(name)}" if separator else source
    options = {key: value for key, value in config.options.items() if key != "checkpoint_path"}
    return replace(config, name=here, options=options, weights=None)


def _make_body(config: ImageEncoderConfig) -> nn.Module:
    if config.options.get("img_size", config.size) != config.size:
        raise ModelError(
            f"'{config.name}' takes no photos of {_pixels(config.size)}: its options ask for img_size "
            f"({config.options['img_size']})"
        )
    pretrained = config.weights == "pretrained"
    try:
        known, options = timm.get_pretrained_cfg(config.name), config.options
        if pretrained and known is not None and known.hf_hub_id:
            check_reachable(known.hf_hub_id, "model.safetensors", "pytorch_model.bin")
        if known is not None and known.fixed_input_size:  # timm creates or resizes position embeddings
            options = {"img_size": config.size, **options}
            if timm.models.is_model_in_modules(config.name, _INTERPOLATING):
                options = {"dynamic_img_size": True, **options}
        body: nn.Module = timm.create_model(config.name, pretrained=pretrained, num_classes=0, **options)
    except ModelError:
        raise
    except Exception as error:  # timm and the hub raise many kinds
        raise ModelError(f"timm cannot make the image encoder '{config.name}': {reason(error)}") from error
    return body


def _resized_weight(name: str, weight: Tensor, shape: torch.Size, to: ImageEncoder) -> Tensor:
    """Return a weight of an encoder in the shape that it has in an encoder of another size."""
    if name == "position":
        return resample_positions(weight, shape[0], to.prefix_tokens)
    if name == "body.pos_embed":
        return resample_positions(weight[0], shape[1], shape[1] - to.body.patch_embed.num_patches)[None]
    owner, _, kind = name.rpartition(".")
    if kind == "relative_position_bias_table":
        attention: Any = to.get_submodule(owner)
        return resize_bias_table(weight, attention.window_size[0], shape[0])
    raise ModelError(
        f"'{to.config.name}' cannot be resized to {_pixels(to.config.size)}: its {name} depends on the size"
    )


def _pixels(size: int) -> str:
    return f"{size} x {size} pixels"


def _load_weights(body: nn.Module, path: str) -> None:
    try:
        weights = load_file(path)
    except Exception as error:
        raise ModelError(f"cannot read the image encoder's weights from {path}: {reason(error)}") from error
    expected = body.state_dict()
    missing = [key for key in expected if key not in weights]
    wrong = [key for key in expected if key in weights and weights[key].shape != expected[key].shape]
    if missing or wrong:
        key = (missing + wrong)[0]
        found = f"shape {tuple(weights[key].shape)}" if key in weights else "nothing"
        raise ModelError(f"{path}: expected {key} of shape {tuple(expected[key].shape)}, found {found}")
    body.load_state_dict({key: weights[key] for key in expected})


# ---- batch norms folded into the convolutions before them: the same vectors in fewer passes ----


def fold_batch_norms(model: nn.Module, pixels: Tensor) -> int:
    """Change an encoder in place, for encoding only: it can then be neither trained nor saved.

    A batch norm is folded if its input is exactly a convolution's output. What else it does, such as the
    activation inside timm's batch norms, is kept. The encoder is run once on `pixels`, to see which module
    follows which.
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
