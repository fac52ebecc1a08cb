"""Dual encoders of other libraries, pre-trained on far more pairs: CLIP and its kin, to compare with.

Which of them a folder or a name of the hub holds is told in `lexlip.models.foreign`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from PIL import Image
from scipy.sparse import csr_matrix
from torch import Tensor, nn
from transformers import AutoImageProcessor, PreTrainedModel, PreTrainedTokenizerBase

from lexlip.config import ImageEncoderConfig, ModelConfig, TextEncoderConfig
from lexlip.encoders.hub_access import reason
from lexlip.encoders.image import to_batch
from lexlip.encoders.text import unread_words
from lexlip.errors import ModelError
from lexlip.machine.device import copied, encoding
from lexlip.models.contract import QueryEncoder
from lexlip.models.dual_encoder import rows_of_texts, to_rows
from lexlip.models.model_folder import foreign_model
from lexlip.registry import Metric

HASHED = 101  # every 101st weight counts for the identity: hashing all would take a second
BILINEAR, BICUBIC = 2, 3  # as Pillow counts


class Pretrained(nn.Module):
    """Turns photos and captions into vectors [D] of length 1, which are compared by their cosine.

    It encodes like a `DualEncoder`, but is not trained here. A photo becomes a square as the model's own
    library makes it, up to fractions of a pixel where its sides are cut. `kind` is that of `lexlip.registry`.
    """

    kind: ClassVar[str]
    metric: ClassVar[Metric] = "cosine"
    vocabulary = None
    balance = keywords = likely = honest_end = None
    mean: Tensor
    std: Tensor

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        image: ImageEncoderConfig,
        max_tokens: int,
        dimensions: int,
        name: str,
    ) -> None:
        super().__init__()
        self.model: Any = model.float().eval()
        self.tokenizer, self.dimensions, self.name = tokenizer, dimensions, name
        self.identity = f"{Path(name).name}@{_digest(model)[:12]}"
        self.config = ModelConfig(kind="dense", image=image, text=TextEncoderConfig(max_tokens=max_tokens))
        self.register_buffer("mean", torch.tensor(image.mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(image.std).view(3, 1, 1), persistent=False)

    def photo_vectors(self, pixels: Tensor) -> Tensor:
        """Return vectors [B, D] of normalised photos, float32 [B, 3, S, S]."""
        raise NotImplementedError

    def text_vectors(self, texts: Sequence[str]) -> Tensor:
        """Return vectors [T, D] of T texts."""
        raise NotImplementedError

    @property
    def device(self) -> torch.device:
        return self.mean.device

    @torch.inference_mode()
    def encode_image(self, photos: Tensor | Image.Image | Iterable[Image.Image]) -> csr_matrix:
        """Return float32 vectors [B, D] of B photos; see `DualEncoder.encode_image`."""
        photos = to_batch(photos, self.config.image)
        if not len(photos):
            return csr_matrix((0, self.dimensions), dtype="float32")
        pixels = (copied(photos, self.device).float() / 255 - self.mean) / self.std
        with encoding(self.device):
            return to_rows(F.normalize(self.photo_vectors(pixels).float()))

    @torch.inference_mode()
    def encode_text(
        self, texts: str | Iterable[str], encoder: QueryEncoder = "network", batch: int = 512
    ) -> csr_matrix:
        """Return float32 vectors [T, D] of T texts, as `DualEncoder.encode_text`; "words" is a ModelError."""
        if encoder == "words":
            raise ModelError(f"the model '{self.name}' has no words: use --query-encoder network")
        with encoding(self.device):
            return rows_of_texts(
                lambda some: F.normalize(self.text_vectors(some).float()), texts, batch, self.dimensions
            )

    def unread(self, text: str) -> str:
        """Return the words at the end of a text that are too many for the text encoder; "" if none are."""
        return unread_words(self.tokenizer, text, self.config.text.max_tokens)

    def fold_batch_norms(self) -> Self:
        """Make encoding photos faster where possible."""
        return self


def _digest(model: nn.Module) -> str:
    """Return the SHA-256 (hexadecimal) of every 101st weight of each tensor, independent of names."""
    digests = (
        hashlib.sha256(weight.detach().cpu().flatten()[::HASHED].numpy().tobytes()).digest()
        for weight in model.parameters()
    )
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()


# ---- those in the format of transformers ----


class OfTransformers(Pretrained):
    """One in the format of transformers, of the class `architecture`, which config.json calls `kind`."""

    architecture: ClassVar[type[PreTrainedModel]]

    @classmethod
    def read_tokenizer(cls, name: str, subfolder: str) -> PreTrainedTokenizerBase:
        """Return the tokenizer of a model, by its name and a folder in it; ModelError: it has none."""
        raise NotImplementedError

    @staticmethod
    def dimensions_of(sizes: Any) -> int:
        """Return D, given the model's config."""
        raise NotImplementedError

    @classmethod
    def from_pretrained(cls, name: str | Path) -> Self:
        """Load a model by hub name or folder, with its tokenizer and its processor's settings.

        ModelError: it cannot be found or read, is not of this kind, or lacks weights.
        """
        name = str(name)
        found = foreign_model(name)
        if found is None or found.model_type != cls.kind:
            what = f"a model of type '{found.model_type}'" if found else "no model of transformers"
            raise ModelError(f"'{name}' holds {what}, not a CLIP or SigLIP model of fixed size")
        try:
            loaded: Any = cls.architecture.from_pretrained(
                name,
                subfolder=found.subfolder,
                output_loading_info=True,
                weights_only=True,
                attn_implementation="sdpa",
            )
            settings = AutoImageProcessor.from_pretrained(
                name, subfolder=found.subfolder, trust_remote_code=False
            ).to_dict()
        except Exception as error:  # transformers and the hub raise many kinds
            raise ModelError(
                f"transformers cannot read the {cls.__name__} model '{name}': {reason(error)}"
            ) from error
        model, report = loaded
        if report["missing_keys"]:
            raise ModelError(
                f"the {cls.__name__} model '{name}' lacks weights: {min(report['missing_keys'])}"
            )
        sizes: Any = model.config
        return cls(
            model,
            cls.read_tokenizer(name, found.subfolder),
            image_config(settings, name),
            sizes.text_config.max_position_embeddings,
            cls.dimensions_of(sizes),
            name,
        )


def image_config(settings: Mapping[str, Any], name: str) -> ImageEncoderConfig:
    """Return what a processor's settings do to a photo; ModelError if that cannot be done here."""
    cut = bool(settings.get("do_center_crop", "crop_size" in settings))
    size = settings["crop_size"] if cut else settings["size"]
    if not isinstance(size, int):
        height, width = (size.get(side) or size.get("shortest_edge") for side in ("height", "width"))
        if height != width or height is None:
            raise ModelError(f"the processor of '{name}' makes photos of {dict(size)}, not square ones")
        size = height
    resample = settings.get("resample", BICUBIC)
    if resample not in (BILINEAR, BICUBIC):
        raise ModelError(f"the processor of '{name}' resizes photos in a way that is not read: {resample}")
    return ImageEncoderConfig(
        name=name,
        size=size,
        resize="crop" if cut else "squash",
        interpolation="bilinear" if resample == BILINEAR else "bicubic",
        mean=tuple(settings["image_mean"]),
        std=tuple(settings["image_std"]),
    )
