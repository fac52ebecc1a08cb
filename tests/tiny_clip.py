"""A CLIP model of a few thousand parameters in the hub's format, made without a network."""

from pathlib import Path

import torch
from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel
from transformers.utils import logging

from lexlip.encoders.text import word_tokenizer
from tests.tiny import CAPTIONS

SIZE, TOKENS, DIMENSIONS = 32, 16, 12


def write_clip(folder: Path, seed: int = 0, hidden_act: str = "quick_gelu") -> Path:
    """A random model of both towers, with a tokenizer of the tests' words and a processor."""
    tokenizer = word_tokenizer(CAPTIONS)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    sizes = {**sizes, "hidden_act": hidden_act}
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
