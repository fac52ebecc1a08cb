"""LightningDOT: two Transformers whose [CLS] states meet in a dot product (Sun et al., NAACL 2021)."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from lexlip.config import ModelConfig
from lexlip.models.dual_encoder import DualEncoder
from lexlip.vocabulary import Vocabulary


class LightningDOT(DualEncoder):
    """A vector is the first token's state ([CLS]) through two layers, D -> 2 D -> D, with a LayerNorm between
    them; image encoders without such a token give the mean of all. Vectors are compared by their dot product.
    """

    kind, has_words, metric = "lightningdot", False, "dot"

    def __init__(
        self,
        config: ModelConfig,
        tokenizer: PreTrainedTokenizerBase,
        vocabulary: Vocabulary | None = None,
        architecture: dict[str, Any] | None = None,
        name: str = "untrained",
    ) -> None:
        super().__init__(config, tokenizer, None, architecture, name)
        self.dimensions = width = self.text_encoder.width
        self.image_projection = _two_layers(self.image_encoder.width, width)
        self.text_projection = _two_layers(width, width)

    def pool_image(self, states: Tensor) -> Tensor:
        with_cls = self.image_encoder.prefix_tokens > 0
        vectors: Tensor = self.image_projection(states[:, 0] if with_cls else states.mean(dim=1))
        return vectors.float()

    def pool_text(self, states: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        vectors: Tensor = self.text_projection(states[:, 0])
        return vectors.float()

    @staticmethod
    def vectors(raw: Tensor) -> Tensor:
        return raw


def _two_layers(width_in: int, width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(width_in, 2 * width), nn.GELU(), nn.LayerNorm(2 * width), nn.Linear(2 * width, width)
    )
