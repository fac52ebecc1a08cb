"""Models of open_clip: CLIPs of LAION and others, MobileCLIP, SigLIP; loaded and given tokens by itself.

`as_clip` turns those with the architecture of OpenAI's CLIP into transformers' format.
"""

from __future__ import annotations

import textwrap
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import open_clip
import torch
from open_clip.transformer import QuickGELU
from timm.utils import reparameterize_model
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor
from transformers import CLIPConfig, CLIPModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from anserini_bridge.given_files import read_json
from lexlip.config import ImageEncoderConfig
from lexlip.encoders.hub_access import folder_here, reason
from lexlip.errors import ModelError
from lexlip.models.clip import Clip
from lexlip.models.dual_encoder import TEXTS_OF_ONE_LENGTH
from lexlip.models.foreign import CONFIG, IN_FOLDER, OPEN_CLIP
from lexlip.models.hub import fetch_open_clip
from lexlip.models.model_folder import is_hub_name, model_folder, without_scheme
from lexlip.models.pretrained import Pretrained

if TYPE_CHECKING:
    from open_clip.tokenizer import SimpleTokenizer

_TRIED = ("two dogs in the snow", "A man's café, 3 bikes!", "")
"""Texts that a converted model must give the vectors of its original for."""

_TOLERANCE = 1e-4  # of a number of a vector of length 1
_PIECES = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
_NAMES = {  # of open_clip and of transformers; the matrix of an attention becomes three
    "transformer.resblocks.": "encoder.layers.",
    "ln_1": "layer_norm1",
    "ln_2": "layer_norm2",
    "attn.": "self_attn.",
    "c_fc": "fc1",
    "c_proj": "fc2",
    "ln_pre": "pre_layrnorm",
    "ln_post": "post_layernorm",
    "ln_final": "final_layer_norm",
    "conv1": "embeddings.patch_embedding",
    "class_embedding": "embeddings.class_embedding",
    "token_embedding": "embeddings.token_embedding",
    "positional_embedding": "embeddings.position_embedding.weight",
}


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


# ---- in the format of transformers ----


def as_clip(model: OpenClip) -> Clip:
    """Return the same model, on the CPU, as one of transformers, with a tokenizer of the library tokenizers.

    It is tried on a photo of noise and on some texts. ModelError: its architecture is not that of OpenAI's
    CLIP, or its tokenizer is not; these can be MobileCLIP, SigLIP and others.
    """
    what = f"'{model.name}' has not the architecture of OpenAI's CLIP, but one of its own"
    try:
        theirs = model.model
        clip = CLIPModel(_sizes(theirs, model.tokenizer)).eval()
        weights = _converted(theirs.state_dict())
        missing, unknown = clip.load_state_dict(weights, strict=False)
        if unknown or [name for name in missing if not name.endswith("position_ids")]:
            raise ModelError(f"{what}: {min([*unknown, *missing])}")
        tokenizer = clip_tokenizer(model.tokenizer)
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise ModelError(f"{what}: {textwrap.shorten(reason(error), 200)}") from error
    config = model.config
    found = Clip(clip, tokenizer, config.image, config.text.max_tokens, model.dimensions, model.name)
    size = config.image.size
    noise = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (1, 3, size, size), np.uint8))
    for ours, original in (
        (found.encode_image(noise), model.encode_image(noise)),
        (found.encode_text(_TRIED), model.encode_text(_TRIED)),
    ):
        if not abs(ours - original).max() <= _TOLERANCE:
            raise ModelError(f"{what}: as such it gives other vectors")
    return found


def _sizes(model: Any, tokenizer: SimpleTokenizer) -> CLIPConfig:
    """Return transformers' description of a model of open_clip."""
    body = model.visual
    of_texts, of_photos = (
        {
            "hidden_size": transformer.width,
            "intermediate_size": transformer.resblocks[0].mlp.c_fc.out_features,
            "num_hidden_layers": len(transformer.resblocks),
            "num_attention_heads": transformer.resblocks[0].attn.num_heads,
            "hidden_act": "quick_gelu"
            if isinstance(transformer.resblocks[0].mlp.gelu, QuickGELU)
            else "gelu",
        }
        for transformer in (model.transformer, body.transformer)
    )
    text = {
        **of_texts,
        "vocab_size": model.token_embedding.num_embeddings,
        "max_position_embeddings": len(model.positional_embedding),
        "bos_token_id": tokenizer.sot_token_id,
        "eos_token_id": tokenizer.eot_token_id,
        "pad_token_id": tokenizer.eot_token_id,
    }
    vision = {**of_photos, "image_size": body.image_size[0], "patch_size": body.conv1.kernel_size[0]}
    return CLIPConfig(text_config=text, vision_config=vision, projection_dim=model.text_projection.shape[1])


def _converted(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return weights under transformers' names."""
    found = {
        "text_projection.weight": weights["text_projection"].T.contiguous(),
        "visual_projection.weight": weights["visual.proj"].T.contiguous(),
        "logit_scale": weights["logit_scale"],
    }
    for name, weight in weights.items():
        if name in ("text_projection", "visual.proj", "logit_scale", "logit_bias", "attn_mask"):
            continue
        side = "vision_model." if name.startswith("visual.") else "text_model."
        name = name.removeprefix("visual.")
        for theirs, ours in _NAMES.items():
            name = name.replace(theirs, ours)
        if ".in_proj_" in name:
            for part, rows in zip("qkv", weight.chunk(3), strict=True):
                found[side + name.replace(".in_proj_", f".{part}_proj.")] = rows
        else:
            found[side + name] = weight
    return found


def clip_tokenizer(theirs: SimpleTokenizer) -> PreTrainedTokenizerBase:
    """Return CLIP's tokenizer as open_clip has it; it does not mend broken characters, as theirs does."""
    begin, end = (theirs.decoder[id] for id in (theirs.sot_token_id, theirs.eot_token_id))
    whole = Tokenizer(
        models.BPE(
            vocab=theirs.encoder, merges=list(theirs.bpe_ranks), end_of_word_suffix="</w>", unk_token=end
        )
    )
    spaces = normalizers.Replace(Regex(r"\s+"), " ")
    whole.normalizer = normalizers.Sequence([normalizers.NFC(), spaces, normalizers.Lowercase()])
    pieces = pre_tokenizers.Split(Regex(_PIECES), "removed", invert=True)
    whole.pre_tokenizer = pre_tokenizers.Sequence(
        [pieces, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    whole.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A {end}",
        special_tokens=[(begin, theirs.sot_token_id), (end, theirs.eot_token_id)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=whole, bos_token=begin, eos_token=end, unk_token=end, pad_token=end
    )
