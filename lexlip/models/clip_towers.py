"""The encoders of a CLIP model of transformers as this project has them: a timm model and a text encoder."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lexlip.config import ImageEncoderConfig, ModelConfig, TextEncoderConfig
from lexlip.errors import ModelError
from lexlip.models.clip import Clip
from lexlip.models.lexlip import LexLIP
from lexlip.vocabulary import Vocabulary

TIMM = "vit_base_patch32_clip_224"  # of any other size by its options
_NAMES = {  # of transformers and of timm; the three matrices of an attention become one
    "embeddings.patch_embedding.": "patch_embed.proj.",
    "pre_layrnorm.": "norm_pre.",
    "post_layernorm.": "norm.",
    "encoder.layers.": "blocks.",
    "self_attn.out_proj.": "attn.proj.",
    "layer_norm": "norm",
}


def lexlip_of_clip(clip: Clip, vocabulary: Vocabulary, name: str) -> LexLIP:
    """Return a LexLIP with the encoders and projections of a CLIP model; its words are random.

    Args:
        clip: the model.
        vocabulary: the words.
        name: of the new model.

    Raises:
        ModelError: timm does not have the image encoder's layers.
    """
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
            f"the CLIP model '{clip.name}' takes photos of {vision.image_size} pixels, and its processor makes"
            f" them {clip.config.image.size}"
        )
    seen = clip.config.image
    image = ImageEncoderConfig(TIMM, options, None, seen.size, seen.resize, seen.mean, seen.std)
    text = TextEncoderConfig(max_tokens=clip.config.text.max_tokens)
    config = ModelConfig("lexlip", image, text, pooling="end", joint=clip.dimensions)
    architecture = {**sizes.text_config.to_dict(), "model_type": "clip_text_model"}
    model = LexLIP(config, clip.tokenizer, vocabulary, architecture, name)
    model.image_encoder.body.load_state_dict(_timm_weights(clip.model.vision_model.state_dict()))
    _load_text(model.text_encoder.body, clip.model.text_model.state_dict())
    projections = clip.model.text_projection, clip.model.visual_projection
    for head, projection in zip((model.text_head, model.image_head), projections, strict=True):
        head.project.load_state_dict({"weight": projection.weight, "bias": torch.zeros(clip.dimensions)})
    return model.eval()


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
