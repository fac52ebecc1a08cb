"""CLIP and its kin with a few thousand parameters in the hub's formats, made without a network."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_model
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    CLIPConfig,
    CLIPImageProcessor,
    CLIPModel,
    PreTrainedTokenizerFast,
    SiglipConfig,
    SiglipImageProcessor,
    SiglipModel,
)
from transformers.utils import logging

from lexlip.encoders.text import word_tokenizer
from tests.tiny import CAPTIONS

SIZE, TOKENS, DIMENSIONS = 32, 16, 12
_SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}


def write_clip(folder: Path, seed: int = 0, hidden_act: str = "quick_gelu") -> Path:
    """A random model of both towers, with a tokenizer of the tests' words and a processor."""
    tokenizer = word_tokenizer(CAPTIONS)
    sizes = {**_SIZES, "hidden_act": hidden_act}
    text = {
        **sizes,
        "vocab_size": len(tokenizer),
        "max_position_embeddings": TOKENS,
        "bos_token_id": tokenizer.cls_token_id,
        "eos_token_id": tokenizer.sep_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    vision = {**sizes, "image_size": SIZE, "patch_size": 8}
    torch.manual_seed(seed)
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=DIMENSIONS)
    logging.disable_progress_bar()
    CLIPModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(str(folder))
    square = {"height": SIZE, "width": SIZE}
    CLIPImageProcessor(size={"shortest_edge": SIZE}, crop_size=square).save_pretrained(folder)
    return folder


def features(output: Any) -> np.ndarray:
    """What get_..._features gives, with length 1: a tensor or, since transformers 5, what holds it."""
    vectors: torch.Tensor = getattr(output, "pooler_output", output)
    return F.normalize(vectors.detach()).numpy()


def gemma_tokenizer() -> PreTrainedTokenizerFast:
    """As SigLIP 2's: pieces that begin with a space, case is kept, and an end after each text."""
    core = Tokenizer(models.BPE(unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    special = ["<pad>", "<eos>", "<bos>", "<unk>"]
    trainer = trainers.BpeTrainer(vocab_size=200, special_tokens=special, show_progress=False)
    core.train_from_iterator([f" {caption}" for caption in CAPTIONS], trainer)
    core.normalizer = normalizers.Replace(" ", "▁")
    core.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    core.post_processor = processors.TemplateProcessing(single="$A <eos>", special_tokens=[("<eos>", 1)])
    named = {"pad_token": "<pad>", "eos_token": "<eos>", "bos_token": "<bos>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=core, **named)


def write_siglip(folder: Path, seed: int = 0, resample: int = 2, second: bool = False) -> Path:
    """A random SigLIP with a tokenizer that gives no mask, as those of Google, and a processor.

    With `second` the tokenizer is like SigLIP 2's.
    """
    tokenizer = gemma_tokenizer() if second else word_tokenizer(CAPTIONS)
    text = {**_SIZES, "vocab_size": len(tokenizer), "max_position_embeddings": TOKENS, "projection_size": 16}
    vision = {**_SIZES, "image_size": SIZE, "patch_size": 8}
    torch.manual_seed(seed)
    logging.disable_progress_bar()
    SiglipModel(SiglipConfig(text_config=text, vision_config=vision)).save_pretrained(folder)
    tokenizer.save_pretrained(str(folder))
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "model_input_names": ["input_ids"]}))
    square = {"height": SIZE, "width": SIZE}
    SiglipImageProcessor(size=square, resample=resample).save_pretrained(folder)
    return folder


def write_sentence_clip(folder: Path, path: str = "0_CLIPModel", after: tuple[str, ...] = ()) -> Path:
    """A random CLIP as sentence-transformers wrote its clip-ViT-B-32; `after` names further modules."""
    write_clip(folder / path)
    package = "sentence_transformers.models"
    modules = [{"idx": 0, "name": "0", "path": path, "type": f"{package}.CLIPModel"}]
    modules += [
        {"idx": number, "name": str(number), "path": f"{number}_{name}", "type": f"{package}.{name}"}
        for number, name in enumerate(after, start=1)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


OPEN_CLIP = {
    "embed_dim": DIMENSIONS,
    "vision_cfg": {"image_size": SIZE, "layers": 1, "width": 16, "head_width": 8, "patch_size": 8},
    "text_cfg": {"context_length": TOKENS, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1},
}
"""Sizes of a CLIP as open_clip describes them; its own tokenizer has 49,408 pieces."""


def write_open_clip(
    folder: Path, seed: int = 0, model: dict[str, Any] = OPEN_CLIP, **preprocess: Any
) -> Path:
    """A random model as open_clip's `push_to_hf_hub` writes it, with a tokenizer if `model` asks for one."""
    import open_clip

    folder.mkdir(parents=True, exist_ok=True)
    settings = {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.25], "interpolation": "bicubic", **preprocess}
    content = {"model_cfg": model, "preprocess_cfg": settings}
    (folder / "open_clip_config.json").write_text(json.dumps(content))
    if "hf_tokenizer_name" in model["text_cfg"]:
        word_tokenizer(CAPTIONS).save_pretrained(str(folder))
    torch.manual_seed(seed)
    random = open_clip.create_model(f"local-dir:{folder}", load_weights=False, pretrained_text=False)
    save_model(random, str(folder / "open_clip_model.safetensors"))
    return folder
