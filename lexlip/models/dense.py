"""The dense ablation of the LexLIP paper: the same towers and losses with a [CLS] vector for the words."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from lexlip.config import ModelConfig
from lexlip.models.dual_encoder import DualEncoder
from lexlip.vocabulary import Vocabulary


class Dense(DualEncoder):
    """Turns photos and captions into one vector each, [D], compared by its cosine.

    The vector is a linear projection of the first token's state ([CLS]), or of the mean of all tokens
    (`pooling: mean`, and always for an image encoder without such a token). D is the text encoder's width.
    """

    kind, has_words = "dense", False

    def __init__(
        self,
        config: ModelConfig,
        tokenizer: PreTrainedTokenizerBase,
        vocabulary: Vocabulary | None = None,
        architecture: dict[str, Any] | None = None,
        name: str = "untrained",
    ) -> None:
        super().__init__(config, tokenizer, None, architecture, name)
        self.dimensions = self.text_encoder.width
        self.text_projection = self.projection(self.text_encoder.width, self.dimensions)
        self.image_projection = self.projection(self.image_encoder.width, self.dimensions)

    @staticmethod
    def projection(width_in: int, width: int) -> nn.Module:
        """What a state goes through."""
        return nn.Linear(width_in, width)

    def pool_image(self, states: Tensor) -> Tensor:
        with_cls = self.image_encoder.prefix_tokens > 0 and self.config.pooling != "mean"
        vectors: Tensor = self.image_projection(states[:, 0] if with_cls else states.mean(dim=1))
        return vectors.float()

    def pool_text(self, states: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        pooled = states[:, 0]
        if self.config.pooling == "mean":
            counted = mask.unsqueeze(2).to(states.dtype)  # [T, L, 1]
            pooled = (states * counted).sum(dim=1) / counted.sum(dim=1)
        vectors: Tensor = self.text_projection(pooled)
        return vectors.float()

    @staticmethod
    def vectors(raw: Tensor) -> Tensor:
        return raw
