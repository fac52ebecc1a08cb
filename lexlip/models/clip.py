"""CLIP (Radford et al., 2021), the pre-trained dense model to compare with, in the format of transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from transformers import CLIPModel, PreTrainedTokenizerBase

from lexlip.encoders.text import read_tokenizer, tokenize
from lexlip.models.dual_encoder import in_groups
from lexlip.models.pretrained import OfTransformers

if TYPE_CHECKING:
    from torch import Tensor


class Clip(OfTransformers):
    """A CLIP; also the first module of one of sentence-transformers."""

    kind: ClassVar[str] = "clip"
    architecture = CLIPModel

    @classmethod
    def read_tokenizer(cls, name: str, subfolder: str) -> PreTrainedTokenizerBase:
        return read_tokenizer(name, subfolder)

    @staticmethod
    def dimensions_of(sizes: Any) -> int:
        return int(sizes.projection_dim)

    def photo_vectors(self, pixels: Tensor) -> Tensor:
        vectors: Tensor = self.model.visual_projection(
            self.model.vision_model(pixel_values=pixels).pooler_output
        )
        return vectors

    def text_vectors(self, texts: Sequence[str]) -> Tensor:
        def pooled(ids: Tensor, mask: Tensor) -> Tensor:
            states: Tensor = self.model.text_model(input_ids=ids, attention_mask=mask.long()).pooler_output
            return states

        ids, mask = tokenize(self.tokenizer, texts, self.config.text.max_tokens)
        vectors: Tensor = self.model.text_projection(
            in_groups(pooled, ids.to(self.device), mask.to(self.device))
        )
        return vectors
