"""The two encoders of a dense model as a LexLIP has them: timm's for photos, and transformers' for texts.

Shapes: D entries of a dense vector.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from tokenizers import Tokenizer, normalizers
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from lexlip.config import ModelConfig
from lexlip.encoders.hub_access import reason
from lexlip.encoders.text import inner_text_model
from lexlip.errors import ModelError
from lexlip.models.clip import Clip
from lexlip.models.dense import Dense
from lexlip.models.lexlip import LexLIP
from lexlip.models.pretrained import Pretrained
from lexlip.models.siglip import SigLIP
from lexlip.registry import CLIP_TEXT, SIGLIP_TEXT
from lexlip.words.vocabulary import Vocabulary

OF_CLIP, OF_SIGLIP = (
    "vit_base_patch32_clip_224",
    "vit_base_patch16_siglip_224",
)  # of any other size by options
_TRIED = ("two dogs in the snow", "A man's café, 3 bikes!", "")
"""Texts that a converted model must give the vectors of its original for."""

_TOLERANCE = 1e-4  # of a number of a vector of length 1
_NAMES = {  # of transformers and of timm; the three matrices of an attention become one
    "embeddings.patch_embedding.": "patch_embed.proj.",
    "pre_layrnorm.": "norm_pre.",
    "post_layernorm.": "norm.",
    "encoder.layers.": "blocks.",
    "self_attn.out_proj.": "attn.proj.",
    "layer_norm": "norm",
    "head.probe": "attn_pool.latent",
    "head.attention.out_proj.": "attn_pool.proj.",
    "head.layernorm.": "attn_pool.norm.",
    "head.mlp.": "attn_pool.mlp.",
}
_ACTIVATIONS = {"gelu_pytorch_tanh": "gelu_tanh"}  # where timm has another name than transformers

Weights = Mapping[str, Tensor]


@dataclass(frozen=True)
class Towers:
    """What a LexLIP takes of a dense model.

    Attributes:
        original: the dense model.
        config: of the LexLIP.
        tokenizer: which makes the tokens that the original's makes, once texts are filled up.
        architecture: the transformers config of the text encoder.
        photos, texts: weights of the image encoder, and of what `inner_text_model` finds.
        of_photos, of_texts: the projections into the shared space: "weight" [D, width], maybe a "bias" [D];
            without a weight, states are vectors.
    """

    original: Dense | Pretrained
    config: ModelConfig
    tokenizer: PreTrainedTokenizerBase
    architecture: dict[str, Any]
    photos: Weights
    texts: Weights
    of_photos: Weights
    of_texts: Weights

    def lexlip(self, vocabulary: Vocabulary, name: str) -> LexLIP:
        """Return a LexLIP on the CPU with these encoders and random words, called `name`.

        Its dense vectors are compared with the original's, of a photo of noise and of some texts.
        ModelError: they are others, or the encoders cannot be made.
        """
        try:
            model = LexLIP(self.config, self.tokenizer, vocabulary, self.architecture, name)
            model.image_encoder.load_state_dict(self.photos)
            inner_text_model(model.text_encoder.body).load_state_dict(self.texts)
            for head, weights in ((model.text_head, self.of_texts), (model.image_head, self.of_photos)):
                projection: nn.Linear = head.project  # type: ignore[assignment]
                alone = {
                    "weight": torch.eye(*projection.weight.shape),
                    "bias": torch.zeros(self.config.joint),
                }
                projection.load_state_dict({**alone, **weights})
            if isinstance(self.original, Pretrained):
                self._try(model.eval(), self.original)
        except (AttributeError, RuntimeError, TypeError) as error:
            raise unlike(self.original.name, error) from error
        return model.eval()

    @torch.inference_mode()
    def _try(self, model: LexLIP, original: Pretrained) -> None:
        size, place = self.config.image.size, original.device
        noise = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (1, 3, size, size), np.uint8))
        original.cpu()  # a GPU rounds more
        for ours, theirs in (
            (model.joint_image(model.image_encoder(noise)), original.encode_image(noise)),
            (model.joint_text(*model.text_encoder.tokenize(_TRIED)), original.encode_text(_TRIED)),
        ):
            if not np.abs(ours.numpy() - theirs.toarray()).max() <= _TOLERANCE:
                raise unlike(original.name, "as such it gives other vectors")
        original.to(place)


def unlike(name: str, why: Exception | str) -> ModelError:
    """Return the error to raise if a model has encoders that a LexLIP cannot have."""
    said = textwrap.shorten(reason(why) if isinstance(why, Exception) else why, 200)
    return ModelError(f"'{name}' has not the architecture of a CLIP or a SigLIP, but one of its own: {said}")


def of_dense(dense: Dense) -> Towers:
    """Return the encoders of a model of kind dense."""
    config = replace(
        dense.config, kind="lexlip", metric=None, head="auto", companions=0, joint=dense.dimensions
    )
    return Towers(
        original=dense,
        config=config,
        tokenizer=dense.tokenizer,
        architecture=dense.text_encoder.architecture,
        photos=dense.image_encoder.state_dict(),
        texts=inner_text_model(dense.text_encoder.body).state_dict(),
        of_photos=dense.image_projection.state_dict(),
        of_texts=dense.text_projection.state_dict(),
    )


def of_transformers(dense: Clip | SigLIP) -> Towers:
    """Return the encoders of a CLIP or a SigLIP; ModelError: its photos have another size than it says."""
    sizes, name = dense.model.config, dense.name
    vision = sizes.vision_config
    options = vit_options(
        vision.patch_size,
        vision.hidden_size,
        vision.intermediate_size,
        vision.num_hidden_layers,
        vision.num_attention_heads,
        vision.hidden_act,
    )
    if vision.image_size != dense.config.image.size:
        raise ModelError(
            f"the model '{name}' takes photos of {vision.image_size} pixels, and its processor makes them"
            f" {dense.config.image.size}"
        )
    texts, of_texts = apart(dense.model.text_model.state_dict(), "head.")
    of_photos: Weights = {}
    if is_clip := isinstance(dense, Clip):
        tokenizer, of_texts = dense.tokenizer, dense.model.text_projection.state_dict()
        of_photos = dense.model.visual_projection.state_dict()
    else:
        tokenizer = normalising(dense.tokenizer, normalizers.Lowercase())
    return Towers(
        original=dense,
        config=joint_config(dense, OF_CLIP if is_clip else OF_SIGLIP, options, "end" if is_clip else "last"),
        tokenizer=tokenizer,
        architecture={
            **sizes.text_config.to_dict(),
            "model_type": CLIP_TEXT if is_clip else SIGLIP_TEXT,
            "pad_token_id": tokenizer.pad_token_id,
        },
        photos=_timm_weights(dense.model.vision_model.state_dict()),
        texts=texts,
        of_photos=of_photos,
        of_texts=of_texts,
    )


def vit_options(
    patch: int, width: int, inner: int, layers: int, heads: int, activation: str
) -> dict[str, Any]:
    """Return timm's options of a Vision Transformer of some size, with an activation of transformers."""
    return {
        "patch_size": patch,
        "embed_dim": width,
        "depth": layers,
        "num_heads": heads,
        "mlp_ratio": inner / width,
        "act_layer": _ACTIVATIONS.get(activation, activation),
    }


def joint_config(
    dense: Pretrained, timm: str, options: dict[str, Any], pooling: Literal["end", "last"]
) -> ModelConfig:
    """Return the config of a LexLIP with the encoders of a model of another library."""
    image = replace(dense.config.image, name=timm, options=options)
    return replace(dense.config, kind="lexlip", image=image, pooling=pooling, joint=dense.dimensions)


def apart(weights: Weights, prefix: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the weights without those whose names begin with a prefix, and these, without it."""
    rest = {name: weight for name, weight in weights.items() if not name.startswith(prefix)}
    begun = {name.removeprefix(prefix): weight for name, weight in weights.items() if name not in rest}
    return rest, begun


def normalising(
    tokenizer: PreTrainedTokenizerBase, *before: normalizers.Normalizer
) -> PreTrainedTokenizerBase:
    """Return a tokenizer that normalises texts in further ways before its own."""
    core: Any = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())  # type: ignore[attr-defined]
    own = [] if core.normalizer is None else [core.normalizer]
    core.normalizer = normalizers.Sequence([*before, *own])
    names = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
    special = {name: str(token) for name in names if (token := getattr(tokenizer, name, None)) is not None}
    return PreTrainedTokenizerFast(tokenizer_object=core, **special)


def _timm_weights(weights: Weights) -> dict[str, Tensor]:
    """Return the weights of a vision model of transformers as those of an `ImageEncoder`."""
    found: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if name == "embeddings.class_embedding":
            found["cls_token"] = weight.view(1, 1, -1)
        elif name == "embeddings.position_embedding.weight":
            found["pos_embed"] = weight[None]
        elif ".q_proj." in name:
            parts = [weights[name.replace(".q_proj.", f".{part}_proj.")] for part in "qkv"]
            found[renamed(name, _NAMES).replace("self_attn.q_proj.", "attn.qkv.")] = torch.cat(parts)
        elif name.startswith("head.attention.in_proj_"):
            kind, (query, *others) = name.rpartition("_")[2], weight.chunk(3)
            found[f"attn_pool.q.{kind}"], found[f"attn_pool.kv.{kind}"] = query, torch.cat(others)
        elif not any(part in name for part in (".k_proj.", ".v_proj.", "position_ids")):
            found[renamed(name, _NAMES)] = weight
    return {f"body.{name}": weight for name, weight in found.items()}


def renamed(name: str, names: Mapping[str, str]) -> str:
    """Return the name of a weight with the parts replaced that have other names."""
    for theirs, ours in names.items():
        name = name.replace(theirs, ours)
    return name
