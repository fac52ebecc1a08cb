"""Models of open_clip: CLIPs of LAION and others, MobileCLIP, SigLIP; loaded and given tokens by itself.

`of_open_clip` gives their encoders to a model of words.
"""

from __future__ import annotations

import re
import string
import textwrap
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import open_clip
import torch
from open_clip.tokenizer import SimpleTokenizer, get_clean_fn
from open_clip.transformer import QuickGELU
from timm.utils import reparameterize_model
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from anserini_bridge.given_files import read_json
from lexlip.config import ImageEncoderConfig
from lexlip.encoders.hub_access import folder_here, reason
from lexlip.errors import ModelError
from lexlip.models.dual_encoder import TEXTS_OF_ONE_LENGTH
from lexlip.models.foreign import CONFIG, IN_FOLDER, OPEN_CLIP
from lexlip.models.hub import fetch_open_clip
from lexlip.models.model_folder import is_hub_name, model_folder, without_scheme
from lexlip.models.pretrained import Pretrained
from lexlip.models.towers import (
    OF_CLIP,
    Towers,
    Weights,
    apart,
    joint_config,
    normalising,
    renamed,
    unlike,
    vit_options,
)
from lexlip.registry import CLIP_TEXT, SIGLIP_TEXT

_PIECES = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
_TEXT_NAMES = {  # of open_clip and of transformers; the matrix of an attention becomes three
    "transformer.resblocks.": "encoder.layers.",
    "ln_1": "layer_norm1",
    "ln_2": "layer_norm2",
    "attn.": "self_attn.",
    "c_fc": "fc1",
    "c_proj": "fc2",
    "ln_final": "final_layer_norm",
    "token_embedding": "embeddings.token_embedding",
    "positional_embedding": "embeddings.position_embedding.weight",
}
_PHOTO_NAMES = {  # of open_clip and of timm
    "transformer.resblocks.": "blocks.",
    "ln_1": "norm1",
    "ln_2": "norm2",
    "attn.in_proj_": "attn.qkv.",
    "attn.out_proj.": "attn.proj.",
    "c_fc": "fc1",
    "c_proj": "fc2",
    "ln_pre": "norm_pre",
    "ln_post": "norm",
    "conv1": "patch_embed.proj",
    "class_embedding": "cls_token",
    "positional_embedding": "pos_embed",
}
_ONE_LINE = (normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip())
_CLEANED = {  # what open_clip does to a text before its tokenizer
    "whitespace": _ONE_LINE,
    "lower": (*_ONE_LINE, normalizers.Lowercase()),
    "canonicalize": (
        normalizers.Replace("_", " "),
        normalizers.Replace(Regex(f"[{re.escape(string.punctuation)}]"), ""),
        normalizers.Lowercase(),
        *_ONE_LINE,
    ),
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


# ---- with encoders of timm and of transformers ----


def of_open_clip(model: OpenClip) -> Towers:
    """Return the encoders of a CLIP, a SigLIP or a MobileCLIP as a LexLIP has them.

    ModelError: its architecture is another one, or its tokenizer is.
    """
    try:
        theirs = model.model
        text = getattr(theirs, "text", theirs)  # of some models texts have no module of their own
        pool = text.pool_type if text is not theirs else text.text_pool_type
        weights = text.state_dict()
        texts, of_texts = apart(weights, "text_projection.")
        if "text_projection" in weights:
            of_texts = {"weight": weights["text_projection"].T}
        of_visual = _of_timm if hasattr(theirs.visual, "trunk") else _of_vit
        timm, options, photos, of_photos = of_visual(theirs.visual)
        tokenizer, filling = _tokenizer(model.tokenizer)
        return Towers(
            original=model,
            config=joint_config(model, timm, options, "last" if pool == "last" else "end"),
            tokenizer=tokenizer,
            architecture=_architecture(text, tokenizer, filling),
            photos={f"body.{name}": weight for name, weight in photos.items()},
            texts=_renamed_texts(texts),
            of_photos=of_photos,
            of_texts=of_texts,
        )
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise unlike(model.name, error) from error


_Photos = tuple[str, dict[str, Any], Weights, Weights]
"""What timm calls an image encoder, its options and its weights, and its projection."""


def _of_timm(visual: Any) -> _Photos:
    known = visual.trunk.pretrained_cfg
    photos, classifier = apart(visual.trunk.state_dict(), f"{known['classifier']}.")
    projection = apart(visual.head.state_dict(), "proj.")[1]
    options = {"global_pool": "map"} if getattr(visual.trunk, "attn_pool", None) is not None else {}
    return known["architecture"], options, photos, projection or classifier


def _of_vit(visual: Any) -> _Photos:
    transformer, weights = visual.transformer, visual.state_dict()
    block = transformer.resblocks[0]
    options = vit_options(
        visual.conv1.kernel_size[0],
        transformer.width,
        block.mlp.c_fc.out_features,
        len(transformer.resblocks),
        block.attn.num_heads,
        _activation(block),
    )
    projection = weights.pop("proj").T
    found = {renamed(name, _PHOTO_NAMES): weight for name, weight in weights.items()}
    found["cls_token"] = found["cls_token"].view(1, 1, -1)
    found["pos_embed"] = found["pos_embed"][None]
    return OF_CLIP, options, found, {"weight": projection}


def _architecture(text: Any, tokenizer: PreTrainedTokenizerBase, filling: int) -> dict[str, Any]:
    """Return transformers' description of a text encoder."""
    block = text.transformer.resblocks[0]
    return {
        "model_type": SIGLIP_TEXT if text.attn_mask is None else CLIP_TEXT,
        "hidden_size": text.transformer.width,
        "intermediate_size": block.mlp.c_fc.out_features,
        "num_hidden_layers": len(text.transformer.resblocks),
        "num_attention_heads": block.attn.num_heads,
        "hidden_act": _activation(block),
        "layer_norm_eps": text.ln_final.eps,
        "vocab_size": text.token_embedding.num_embeddings,
        "max_position_embeddings": len(text.positional_embedding),
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": filling,
    }


def _activation(block: Any) -> str:
    """Return transformers' name of what a block applies."""
    if isinstance(block.mlp.gelu, QuickGELU):
        return "quick_gelu"
    return "gelu_pytorch_tanh" if block.mlp.gelu.approximate == "tanh" else "gelu"


def _renamed_texts(weights: Weights) -> dict[str, Tensor]:
    """Return a text encoder's weights under transformers' names."""
    found: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if name.startswith(("visual.", "text_projection", "logit_", "attn_mask")):
            continue
        name = renamed(name, _TEXT_NAMES)
        if ".in_proj_" in name:
            for part, rows in zip("qkv", weight.chunk(3), strict=True):
                found[name.replace(".in_proj_", f".{part}_proj.")] = rows
        else:
            found[name] = weight
    return found


def _tokenizer(theirs: Any) -> tuple[PreTrainedTokenizerBase, int]:
    """Return a tokenizer of the library tokenizers, and the token that texts are filled up with.

    It does not mend characters that were decoded wrongly, as theirs does.
    """
    if isinstance(theirs, SimpleTokenizer):
        return clip_tokenizer(theirs), 0
    own: PreTrainedTokenizerBase = theirs.tokenizer
    cleaned = {get_clean_fn(kind): steps for kind, steps in _CLEANED.items()}
    return normalising(own, *cleaned[theirs.clean_fn]), int(own.pad_token_id)


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
