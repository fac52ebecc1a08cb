"""The image encoder of papers whose photos are regions that an object detector found.

Shapes: B photos, N regions, d features and c classes of a region, P tokens, D width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from lexlip.config import BOX, ImageEncoderConfig
from lexlip.errors import ModelError


class RegionEncoder(nn.Module):
    """Embeds regions as LightningDOT does (Section 3.1), and runs fresh Transformer layers over them.

    A token is LayerNorm(W_f features + W_b box), with the box as (x1, y1, x2, y2, w, h, w h) in shares of the
    picture (UNITER). Layers are BERT's, with a learned first token, whose state stands for the photo. Without
    layers there is none, as models that run photo tokens through their text encoder want it.

    Photos are given as float32 [B, N, BOX + d + c], with zeros where a photo has fewer regions; there, states
    are 0. It offers what an `ImageEncoder` does, but for frozen parts.
    """

    positions = 0  # tokens have their places in the picture instead
    frozen_until = None

    def __init__(self, config: ImageEncoderConfig, width: int) -> None:
        super().__init__()
        assert config.regions is not None
        self.config, self.regions, self.width = config, config.regions, width
        self.checkpointing = False
        self.features = nn.Linear(self.regions.features, width)
        self.boxes = nn.Linear(BOX, width)
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(0.1)
        self.layers: nn.TransformerEncoder | None = None
        self.prefix_tokens = int(config.layers > 0)
        if config.layers:
            self.first = nn.Parameter(torch.randn(width) * 0.02)
            layer = nn.TransformerEncoderLayer(
                width, max(1, width // 64), 4 * width, activation="gelu", batch_first=True
            )
            self.layers = nn.TransformerEncoder(layer, config.layers, enable_nested_tensor=False)

    def forward(self, photos: Tensor) -> Tensor:
        """Return the states [B, P, D] of photos [B, N, BOX + d + c]."""
        return self.deepen(photos)

    def tokens(self, photos: Tensor) -> Tensor:
        """Return photos as they are: nothing comes before the layers that are trained."""
        return photos

    def deepen(self, photos: Tensor) -> Tensor:
        """Return the states [B, P, D] of photos, or of `masked_tokens`."""
        box, features, _ = photos.split([BOX, self.regions.features, self.regions.classes], dim=2)
        states = self.dropout(self.norm(self.features(features) + self.boxes(box)))
        real = _real(photos)
        if self.layers is not None:
            first = self.first.to(states.dtype).expand(len(states), 1, -1)
            states, real = torch.cat([first, states], dim=1), F.pad(real, (1, 0), value=True)
            for layer in self.layers.layers:
                if self.checkpointing and torch.is_grad_enabled():
                    states = checkpoint(layer, states, src_key_padding_mask=~real, use_reentrant=False)
                else:
                    states = layer(states, src_key_padding_mask=~real)
        return states.masked_fill(~real[:, :, None], 0)

    def blank(self) -> Tensor:
        """Return one photo without regions."""
        numbers = BOX + self.regions.features + self.regions.classes
        return torch.zeros(1, self.regions.most, numbers, device=self.boxes.weight.device)

    # ---- masked regions ----

    @property
    def patch_width(self) -> int:
        """How many numbers a masked region is regressed to."""
        return self.regions.features

    @property
    def chances_width(self) -> int:
        return self.regions.classes

    def chances(self, photos: Tensor) -> Tensor:
        """Return how likely each token is of each class by the detector, [B, P, c]."""
        return F.pad(photos[:, :, BOX + self.regions.features :], (0, 0, self.prefix_tokens, 0))

    def masked_tokens(self, photos: Tensor, share: float) -> tuple[Tensor, Tensor, Tensor]:
        """Return the states of photos of which a share of the regions, at least one each, has features of 0.

        Returns states [B, P, D]; bool [B, P], which tokens are masked, drawn by torch's generator; and their
        features, [masked regions of all photos, d], in order.
        """
        real = _real(photos)
        lots = torch.rand(real.shape, device=photos.device).masked_fill(~real, 2)
        numbers = (share * real.sum(dim=1)).round().clamp(min=1)
        masked = real & (lots.argsort(dim=1).argsort(dim=1) < numbers[:, None])
        features = photos[:, :, BOX : BOX + self.regions.features]
        seen = photos.clone()
        seen[:, :, BOX : BOX + self.regions.features][masked] = 0
        return self.deepen(seen), F.pad(masked, (self.prefix_tokens, 0)), features[masked]

    # ---- changes ----

    def resized(self, size: int) -> RegionEncoder:
        raise ModelError("regions of a detector have no size in pixels: leave model.image.size out")

    def checkpoint_activations(self) -> None:
        """Recompute activations in the backward pass."""
        self.checkpointing = True


def _real(photos: Tensor) -> Tensor:
    """Return which rows of photos [B, N, BOX + d + c] are regions: those have an area; bool [B, N]."""
    return photos[:, :, BOX - 1] > 0
