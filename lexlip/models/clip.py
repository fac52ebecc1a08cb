"""CLIP, the pre-trained dense model to compare with, by hub name or folder of transformers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from PIL import Image
from scipy.sparse import csr_matrix
from torch import Tensor, nn
from transformers import AutoImageProcessor, CLIPModel, PretrainedConfig, PreTrainedTokenizerBase

from lexlip.config import ImageEncoderConfig, ModelConfig, TextEncoderConfig
from lexlip.encoders.hub_access import reason
from lexlip.encoders.image import to_batch
from lexlip.encoders.text import read_tokenizer, tokenize
from lexlip.errors import ModelError
from lexlip.machine.device import copied, encoding
from lexlip.models.contract import QueryEncoder
from lexlip.models.dual_encoder import in_groups, rows_of_texts, to_rows
from lexlip.registry import Metric

HASHED = 101  # every 101st weight counts for the identity: hashing all would take a second


class Clip(nn.Module):
    """Turns photos and captions into vectors [D] that are compared by their cosine (Radford et al., 2021).

    It encodes like a `DualEncoder`, but is not trained here. A photo is cut to its central square and
    resized as CLIP's own processor does, up to fractions of a pixel.
    """

    def __init__(
        self, model: CLIPModel, tokenizer: PreTrainedTokenizerBase, image: ImageEncoderConfig, name: str
    ) -> None:
        super().__init__()
        self.model, self.tokenizer, self.name = model.eval(), tokenizer, name
        self.identity = f"{Path(name).name}@{_digest(model)[:12]}"
        sizes: Any = model.config
        self.dimensions: int = sizes.projection_dim
        positions: int = sizes.text_config.max_position_embeddings
        self.config = ModelConfig(kind="dense", image=image, text=TextEncoderConfig(max_tokens=positions))
        self.register_buffer("mean", torch.tensor(image.mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(image.std).view(3, 1, 1), persistent=False)

    kind: ClassVar[str] = "clip"
    metric: ClassVar[Metric] = "cosine"
    vocabulary = None
    balance = keywords = likely = honest_end = None
    mean: Tensor
    std: Tensor

    @property
    def device(self) -> torch.device:
        return self.mean.device

    @classmethod
    def from_pretrained(cls, name: str | Path) -> Self:
        """Load a model by hub name or folder, with its tokenizer and its processor's settings.

        ModelError: it cannot be found or read, is not a CLIP model, or lacks weights.
        """
        name = str(name)
        try:
            kind = PretrainedConfig.get_config_dict(name)[0].get("model_type")  # no class is made of it
            if kind != "clip":
                raise ModelError(f"'{name}' holds a model of type '{kind}', not a CLIP model")
            loaded: Any = CLIPModel.from_pretrained(
                name, output_loading_info=True, weights_only=True, attn_implementation="sdpa"
            )
            settings = AutoImageProcessor.from_pretrained(name, trust_remote_code=False).to_dict()
        except ModelError:
            raise
        except Exception as error:  # transformers and the hub raise many kinds
            why = reason(error) + ("" if Path(name).exists() else " (no folder has that name)")
            raise ModelError(f"transformers cannot read the CLIP model '{name}': {why}") from error
        model, report = loaded
        if report["missing_keys"]:
            raise ModelError(f"the CLIP model '{name}' lacks weights: {min(report['missing_keys'])}")
        return cls(model.float(), read_tokenizer(name), image_config(settings, name), name)

    @torch.inference_mode()
    def encode_image(self, photos: Tensor | Image.Image | Sequence[Image.Image]) -> csr_matrix:
        """Return float32 vectors [B, D] of B photos; see `DualEncoder.encode_image`."""
        photos = to_batch(photos, self.config.image)
        if not len(photos):
            return csr_matrix((0, self.dimensions), dtype="float32")
        pixels = (copied(photos, self.device).float() / 255 - self.mean) / self.std
        with encoding(self.device):
            pooled = self.model.vision_model(pixel_values=pixels).pooler_output
            return to_rows(self.model.visual_projection(pooled))

    @torch.inference_mode()
    def encode_text(
        self, texts: str | Sequence[str], encoder: QueryEncoder = "network", batch: int = 512
    ) -> csr_matrix:
        """Return float32 vectors [T, D] of T texts, as `DualEncoder.encode_text`; "words" is a ModelError."""
        if encoder == "words":
            raise ModelError(f"the CLIP model '{self.name}' has no words: use --query-encoder network")
        with encoding(self.device):
            return rows_of_texts(self._encode, texts, batch, self.dimensions)

    def fold_batch_norms(self) -> Self:
        """Return the model unchanged: a CLIP of transformers has no batch norms."""
        return self

    def _encode(self, texts: Sequence[str]) -> Tensor:
        def pooled(ids: Tensor, mask: Tensor) -> Tensor:
            states: Tensor = self.model.text_model(input_ids=ids, attention_mask=mask.long()).pooler_output
            return states

        ids, mask = tokenize(self.tokenizer, texts, self.config.text.max_tokens)
        vectors: Tensor = self.model.text_projection(
            in_groups(pooled, ids.to(self.device), mask.to(self.device))
        )
        return vectors


def _digest(model: nn.Module) -> str:
    """Return the SHA-256 (hexadecimal) of every 101st weight of each tensor, independent of names."""
    digests = (
        hashlib.sha256(weight.detach().cpu().flatten()[::HASHED].numpy().tobytes()).digest()
        for weight in model.parameters()
    )
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()


def image_config(settings: Mapping[str, Any], name: str) -> ImageEncoderConfig:
    """Return what a CLIP processor's settings do to a photo; ModelError if the result is not square."""
    cut = bool(settings.get("do_center_crop", True))
    size = settings["crop_size"] if cut else settings["size"]
    if not isinstance(size, int):
        height, width = (size.get(side) or size.get("shortest_edge") for side in ("height", "width"))
        if height != width or height is None:
            raise ModelError(f"the processor of '{name}' makes photos of {dict(size)}, not square ones")
        size = height
    return ImageEncoderConfig(
        name=name,
        size=size,
        resize="crop" if cut else "squash",
        mean=tuple(settings["image_mean"]),
        std=tuple(settings["image_std"]),
    )
