"""A LexLIP with the encoders of a dense model: of CLIP, or of one that was trained here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lexlip.config import ImageEncoderConfig, ModelConfig, TextEncoderConfig
from lexlip.errors import ModelError
from lexlip.models.clip import Clip
from lexlip.models.dense import Dense
from lexlip.models.lexlip import LexLIP
from lexlip.models.load import load_model
from lexlip.models.model_folder import kind_of
from lexlip.registry import MODELS
from lexlip.words.vocabulary import Vocabulary

TIMM = "vit_base_patch32_clip_224"  # of any other size by its options
_NAMES = {  # of transformers and of timm; the three matrices of an attention become one
    "embeddings.patch_embedding.": "patch_embed.proj.",
    "pre_layrnorm.": "norm_pre.",
    "post_layernorm.": "norm.",
    "encoder.layers.": "blocks.",
    "self_attn.out_proj.": "attn.proj.",
    "layer_norm": "norm",
}


def load_dense(name: str | Path, device: str = "cpu") -> Clip | Dense:
    """Load a model that `lexlip_of` takes, by folder or a CLIP's hub name.

    Args:
        name: of the model.
        device: see `lexlip.machine.device.pick_device`.

    Raises:
        ModelError: there is no such model, it is damaged, or it is of another kind.
        ConfigError: there is no such device.
    """
    kind = kind_of(name)
    if kind not in ("clip", "dense"):
        words = kind in MODELS and MODELS[kind].words
        why = f"is a {kind} model" + (", which has words already" if words else "")
        raise ModelError(f"'{name}' {why}: give a CLIP model or one of kind dense")
    model = load_model(name, device)
    assert isinstance(model, Clip | Dense)
    return model


def lexlip_of(dense: Clip | Dense, vocabulary: Vocabulary, name: str) -> LexLIP:
    """Return a LexLIP with the encoders and projections of a dense model, on the CPU; its words are random.

    Args:
        dense: the model.
        vocabulary: the words.
        name: of the new model.

    Raises:
        ModelError: timm does not have the layers of CLIP's image encoder.
    """
    model = (
        _of_clip(dense, vocabulary, name) if isinstance(dense, Clip) else _of_dense(dense, vocabulary, name)
    )
    return model.eval()


def _of_dense(dense: Dense, vocabulary: Vocabulary, name: str) -> LexLIP:
    config = replace(dense.config, kind="lexlip", head="auto", companions=0, joint=dense.dimensions)
    model = LexLIP(config, dense.tokenizer, vocabulary, dense.text_encoder.architecture, name)
    model.image_encoder.load_state_dict(dense.image_encoder.state_dict())
    model.text_encoder.load_state_dict(dense.text_encoder.state_dict())
    _load_projections(model, dense.text_projection, dense.image_projection)
    return model


def _of_clip(clip: Clip, vocabulary: Vocabulary, name: str) -> LexLIP:
    sizes: Any = clip.model.config
    vision = sizes.vision_config
    options = {
        "patch_size": vision.patch_size,
        "embed_dim": vision.hidden_size,
        "depth": vision.num_hidden_layers,
        "num_heads": vision.num_attention_heads,
        "mlp_ratio": vision.intermediate_size / vision.hidden_size,
        "act_layer": vision.hidden_act,
    }
    if vision.image_size != clip.config.image.size:
        raise ModelError(
            f"the CLIP model '{clip.name}' takes photos of {vision.image_size} pixels, and its processor"
            f" makes them {clip.config.image.size}"
        )
    seen = clip.config.image
    image = ImageEncoderConfig(TIMM, options, None, seen.size, seen.resize, seen.mean, seen.std)
    text = TextEncoderConfig(max_tokens=clip.config.text.max_tokens)
    config = ModelConfig("lexlip", image, text, pooling="end", joint=clip.dimensions)
    architecture = {**sizes.text_config.to_dict(), "model_type": "clip_text_model"}
    model = LexLIP(config, clip.tokenizer, vocabulary, architecture, name)
    model.image_encoder.body.load_state_dict(_timm_weights(clip.model.vision_model.state_dict()))
    _load_text(model.text_encoder.body, clip.model.text_model.state_dict())
    _load_projections(model, clip.model.text_projection, clip.model.visual_projection)
    return model


def _load_projections(model: LexLIP, of_texts: nn.Module, of_photos: nn.Module) -> None:
    """Copy the projections into the shared space; those of CLIP have no bias."""
    for head, projection in ((model.text_head, of_texts), (model.image_head, of_photos)):
        zero = {"bias": torch.zeros(model.config.joint)}
        head.project.load_state_dict({**zero, **projection.state_dict()})


def _load_text(body: Any, weights: dict[str, Tensor]) -> None:
    """Load a text encoder; some versions of transformers have its modules one level lower."""
    getattr(body, "text_model", body).load_state_dict(weights)


def _timm_weights(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of a vision model of transformers under the names of timm."""
    found: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if name == "embeddings.class_embedding":
            found["cls_token"] = weight.view(1, 1, -1)
        elif name == "embeddings.position_embedding.weight":
            found["pos_embed"] = weight[None]
        elif ".q_proj." in name:
            parts = [weights[name.replace(".q_proj.", f".{part}_proj.")] for part in "qkv"]
            found[_renamed(name).replace("self_attn.q_proj.", "attn.qkv.")] = torch.cat(parts)
        elif not any(part in name for part in (".k_proj.", ".v_proj.", "position_ids")):
            found[_renamed(name)] = weight
    return found


def _renamed(name: str) -> str:
    for theirs, ours in _NAMES.items():
        name = name.replace(theirs, ours)
    return name
