"""SigLIP (Zhai et al., 2023) and SigLIP 2 (Tschannen et al., 2025) in the format of transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast, SiglipModel

from lexlip.encoders.hub_access import check_reachable, reason
from lexlip.errors import ModelError
from lexlip.models.dual_encoder import TEXTS_OF_ONE_LENGTH
from lexlip.models.pretrained import OfTransformers


class SigLIP(OfTransformers):
    """A SigLIP of fixed size: the text encoder reads all its positions, also those that are filled up."""

    kind: ClassVar[str] = "siglip"
    architecture = SiglipModel

    @classmethod
    def read_tokenizer(cls, name: str, subfolder: str) -> PreTrainedTokenizerBase:
        """Return the tokenizer that tokenizer.json holds; ModelError: it cannot be read.

        Both have the same pieces, but transformers' own class for SigLIP needs sentencepiece.
        """
        check_reachable(name)
        try:
            tokenizer: PreTrainedTokenizerBase = PreTrainedTokenizerFast.from_pretrained(
                name, subfolder=subfolder
            )
        except Exception as error:  # tokenizers raises plain Exception, the hub many kinds
            raise ModelError(
                f"cannot read the tokenizer.json of '{name}': {reason(error)}; save the model's tokenizer"
                " there with transformers"
            ) from error
        return tokenizer

    @staticmethod
    def dimensions_of(sizes: Any) -> int:
        return int(sizes.vision_config.hidden_size)

    def photo_vectors(self, pixels: Tensor) -> Tensor:
        vectors: Tensor = self.model.vision_model(pixel_values=pixels).pooler_output
        return vectors

    def text_vectors(self, texts: Sequence[str]) -> Tensor:
        tokens = self.tokenizer(
            [text.lower() for text in texts],  # as it was trained; the tokenizer of SigLIP 2 does not say so
            padding="max_length",
            truncation=True,
            max_length=self.config.text.max_tokens,
            return_tensors="pt",
        )
        given = {key: tokens[key] for key in ("input_ids", "attention_mask") if key in tokens}
        size = TEXTS_OF_ONE_LENGTH[self.device.type == "cuda"]
        groups = [
            {key: rows[start : start + size].to(self.device) for key, rows in given.items()}
            for start in range(0, len(texts), size)
        ]
        return torch.cat([self.model.text_model(**group).pooler_output for group in groups])
