"""Models of open_clip: CLIPs of LAION and others, MobileCLIP, SigLIP; loaded and given tokens by itself."""

from __future__ import annotations

import textwrap
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import open_clip
import torch
from timm.utils import reparameterize_model
from torch import Tensor

from anserini_bridge.given_files import read_json
from lexlip.config import ImageEncoderConfig
from lexlip.encoders.hub_access import folder_here, reason
from lexlip.errors import ModelError
from lexlip.models.dual_encoder import TEXTS_OF_ONE_LENGTH
from lexlip.models.foreign import CONFIG, IN_FOLDER, OPEN_CLIP
from lexlip.models.hub import fetch_open_clip
from lexlip.models.model_folder import is_hub_name, model_folder, without_scheme
from lexlip.models.pretrained import Pretrained


class OpenClip(Pretrained):
    """A model of open_clip, with its tokenizer."""

    kind: ClassVar[str] = "open_clip"

    @classmethod
    def from_pretrained(cls, name: str | Path) -> Self:
        """Load a model by hub name or folder, perhaps with open_clip's "hf-hub:" or "local-dir:" before it.

        What it names itself, such as the architecture of its text encoder, must be on this machine.
        ModelError: it cannot be found or read, lacks weights, or its photos are no squares.
        """
        name = str(name)
        folder = fetch_open_clip(without_scheme(name)) if is_hub_name(name) else model_folder(name)
        try:
            sizes = read_json(folder / OPEN_CLIP)["model_cfg"]
            text = _at_hand(sizes["text_cfg"], name)
            if ":" in str(sizes["vision_cfg"].get("timm_model_name", "")):
                raise ModelError(f"'{name}' names an image encoder on the hub, which is not fetched")
            here = f"{IN_FOLDER}{folder}"
            model = open_clip.create_model(
                here, pretrained_text=False, require_pretrained=True, weights_only=True, text_cfg=text
            )
            # a stranger's config could ask to run code that lies beside it
            safe = {"trust_remote_code": False} if text.get("hf_tokenizer_name") else {}
            tokenizer = open_clip.get_tokenizer(here, **safe)
            return cls(
                model,
                tokenizer,
                image_config(model.visual.preprocess_cfg, name),
                int(tokenizer.context_length),
                int(sizes["embed_dim"]),
                name,
            )
        except ModelError:
            raise
        except Exception as error:  # open_clip, torch and tokenizers raise many kinds
            why = textwrap.shorten(reason(error), 300)
            raise ModelError(f"open_clip cannot read the model '{name}': {why}") from error

    def photo_vectors(self, pixels: Tensor) -> Tensor:
        vectors: Tensor = self.model.encode_image(pixels)
        return vectors

    def text_vectors(self, texts: Sequence[str]) -> Tensor:
        groups = self.tokenizer(list(texts)).split(TEXTS_OF_ONE_LENGTH[self.device.type == "cuda"])
        return torch.cat([self.model.encode_text(ids.to(self.device)) for ids in groups])

    def unread(self, text: str) -> str:
        """Return the words at the end of a text that make no difference to its tokens; "" if all do."""
        words = text.split()
        whole = self.tokenizer([text])

        def is_enough(number: int) -> bool:
            return torch.equal(self.tokenizer([" ".join(words[:number])]), whole)

        return " ".join(words[bisect_left(range(len(words)), True, key=is_enough) :])

    def fold_batch_norms(self) -> Self:
        """Join the branches that MobileCLIP's image encoder was trained with; others have none."""
        reparameterize_model(self.model.visual, inplace=True)
        return self


def _at_hand(text: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the settings of a text encoder, with the folder of the model of the hub that they name."""
    if "hf_model_name" not in text:
        return text
    try:
        folder = folder_here(str(text["hf_model_name"]))
    except ModelError as error:
        raise ModelError(
            f"the text encoder of '{name}' is made as {text['hf_model_name']}, which is not on this machine:"
            f" hf download {text['hf_model_name']} {CONFIG}"
        ) from error
    if "auto_map" in read_json(folder / CONFIG):
        raise ModelError(f"the text encoder of '{name}' needs Python code of its own, which is never run")
    return {**text, "hf_model_name": str(folder), "hf_model_pretrained": False}


def image_config(settings: dict[str, Any], name: str) -> ImageEncoderConfig:
    """Return what open_clip's settings do to a photo; ModelError if that cannot be done here."""
    size, resize = settings["size"], settings["resize_mode"]
    height, width = (size, size) if isinstance(size, int) else size
    if height != width:
        raise ModelError(f"'{name}' takes photos of {height} x {width} pixels, not square ones")
    if resize not in ("shortest", "squash"):
        raise ModelError(f"'{name}' fits photos into a square by '{resize}', which is not known here")
    return ImageEncoderConfig(
        name=name,
        size=height,
        resize="crop" if resize == "shortest" else "squash",
        interpolation="bilinear" if settings["interpolation"] == "bilinear" else "bicubic",
        mean=tuple(settings["mean"]),
        std=tuple(settings["std"]),
    )
