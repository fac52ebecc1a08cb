"""LightningDOT: two Transformers whose [CLS] states meet in a dot product (Sun et al., NAACL 2021)."""

from __future__ import annotations

from torch import nn

from lexlip.models.dense import Dense


class LightningDOT(Dense):
    """Dense vectors through two layers, D_in -> 2 D -> D with a LayerNorm between them, compared by their dot
    product.
    """

    kind, metric = "lightningdot", "dot"

    @staticmethod
    def projection(width_in: int, width: int) -> nn.Module:
        return nn.Sequential(
            nn.Linear(width_in, 2 * width), nn.GELU(), nn.LayerNorm(2 * width), nn.Linear(2 * width, width)
        )
