"""Dense dual encoders: the ablation of the LexLIP paper, and LightningDOT.

Shapes: B photos, T captions, P image tokens, L text tokens, D width.
"""

from __future__ import annotations

from torch import Tensor, nn

from lexlip.models.dual_encoder import DualEncoder


class Dense(DualEncoder):
    """The towers and losses of LexLIP with one vector [D] per photo or caption ("Dense (ours)").

    The vector is a linear projection of the first token's state ([CLS]), or of the mean over all tokens
    (`pooling: mean`, and always for an image encoder without a [CLS] token). D is the text encoder's width.
    Vectors are compared by their cosine.
    """

    kind = "dense"

    def make_heads(self, pretrained: str | None) -> None:
        self.dimensions = self.text_encoder.width
        self.text_projection = self.projection(self.text_encoder.width, self.dimensions)
        self.image_projection = self.projection(self.image_encoder.width, self.dimensions)

    @staticmethod
    def projection(width_in: int, width: int) -> nn.Module:
        """Return the layers that turn a state into a vector."""
        return nn.Linear(width_in, width)

    def pool_image(self, states: Tensor) -> Tensor:
        vectors: Tensor = self.image_projection(self.pooled_image(states))
        return vectors.float()

    def pool_text(self, states: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        vectors: Tensor = self.text_projection(self.pooled_text(states, mask))
        return vectors.float()


class LightningDOT(Dense):
    """LightningDOT (Sun et al., NAACL 2021): two layers after [CLS], vectors compared by dot product.

    The projection is D_in -> 2 D -> D with GELU and LayerNorm between the layers; the paper has no such
    layers.
    """

    kind = "lightningdot"

    @staticmethod
    def projection(width_in: int, width: int) -> nn.Module:
        return nn.Sequential(
            nn.Linear(width_in, 2 * width), nn.GELU(), nn.LayerNorm(2 * width), nn.Linear(2 * width, width)
        )
