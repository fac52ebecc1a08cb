"""A LexLIP model as a module of sentence-transformers, whose `SparseEncoder` encodes texts and photos.

    encoder = SparseEncoder(modules=[LexicalModule("mini")])
    encoder.save_pretrained("mini-encoder")
    encoder = SparseEncoder("mini-encoder", trust_remote_code=True)

The SPLADE modules of sentence-transformers do not fit: there, an entry of a vector is a piece of the
tokenizer, and here a word of the vocabulary. So whoever loads the folder needs lexlip, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import torch
from PIL import Image
from sentence_transformers.base.modules import InputModule
from sentence_transformers.util import load_dir_path
from torch import Tensor

from lexlip.encoders.image import to_batch
from lexlip.errors import DataError
from lexlip.models.lexlip import LexLIP


class Columns:
    """Names the entries of a vector, as a tokenizer of sentence-transformers names its tokens."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words

    def convert_ids_to_tokens(self, columns: Sequence[int]) -> list[str]:
        """Return the word of each column."""
        return [self.words[column] for column in columns]


class LexicalModule(InputModule):
    """Encodes texts or photos to "sentence_embedding", vectors p [B, V] (Eq. 3, 6).

    `model` is a LexLIP model, or its packaged name, folder or hub name; ModelError: there is none, or of
    another kind.
    """

    save_in_root = False

    def __init__(self, model: LexLIP | str | Path) -> None:
        super().__init__()
        self.model = model if isinstance(model, LexLIP) else LexLIP.from_pretrained(model)
        self.tokenizer: Any = Columns(self.model.vocabulary.words)

    @property
    def modalities(self) -> list[Any]:
        """What it encodes."""
        return ["text", "image"]

    def preprocess(self, inputs: Sequence[Any], prompt: str | None = None, **kwargs: Any) -> dict[str, Any]:
        """Return the tokens of texts, or the pixels of pictures of PIL; else, or of both, DataError."""
        if all(isinstance(one, str) for one in inputs):
            ids, mask = self.model.text_encoder.tokenize([(prompt or "") + one for one in inputs])
            return {"input_ids": ids, "attention_mask": mask}
        if all(isinstance(one, Image.Image) for one in inputs):
            return {"pixel_values": to_batch(list(inputs), self.model.config.image)}
        raise DataError("give texts alone, or pictures of PIL alone")

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Add "sentence_embedding", float32 [B, V]."""
        model = self.model
        if "pixel_values" in features:
            vectors = model.over_views(
                lambda view: model.vectors(model.raw_image(view)), features["pixel_values"]
            )
        else:
            ids, mask = features["input_ids"], features["attention_mask"]
            vectors = model.vectors(model.raw_text(ids, mask.bool()))
        embedding: Tensor = vectors.to(torch.float32)
        return {**features, "sentence_embedding": embedding}

    def get_embedding_dimension(self) -> int:
        """Return the number of words, V."""
        return self.model.dimensions

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Write the model's folder."""
        self.model.save(output_path)

    @classmethod
    def load(  # type: ignore[override]  # the arguments of the hub are among kwargs
        cls, model_name_or_path: str, subfolder: str = "", **kwargs: Any
    ) -> Self:
        """Read what `save` wrote, from a folder or the hub."""
        known = {
            name: kwargs[name]
            for name in ("token", "cache_folder", "revision", "local_files_only")
            if name in kwargs
        }
        return cls(str(load_dir_path(model_name_or_path, subfolder=subfolder, **known)))
