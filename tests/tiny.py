"""Models of a few thousand parameters, for all tests of the neural half."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from lexlip.config import ImageEncoderConfig, ModelConfig, TextEncoderConfig, VocabularyConfig
from lexlip.encoders.text import load_tokenizer
from lexlip.models.lexlip import LexLIP
from lexlip.vocabulary import Vocabulary

CAPTIONS = [
    "two dogs play in the snow",
    "a brown dog jumps over a fence",
    "a man in a red shirt rides a bike",
    "children play football on green grass",
    "a woman holds a small white cat",
    "the boat is on the blue sea, near the beach",
]

TINY = ModelConfig(
    image=ImageEncoderConfig(
        name="vit_tiny_patch16_224",
        options={"patch_size": 8, "embed_dim": 24, "depth": 1, "num_heads": 2},
        size=32,
    ),
    text=TextEncoderConfig(
        tokenizer="captions",
        options={
            "hidden_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 32,
            "max_position_embeddings": 40,
        },
    ),
    vocabulary=VocabularyConfig(kind="words"),
)


def tiny_model(config: ModelConfig = TINY, seed: int = 0, **changes: Any) -> LexLIP:
    """A random model whose vocabulary is made of CAPTIONS; `changes` replace sections of the config."""
    config = replace(config, **changes)
    torch.manual_seed(seed)
    tokenizer = load_tokenizer(config.text, CAPTIONS)
    vocabulary = Vocabulary.build(config.vocabulary, tokenizer, CAPTIONS)
    model = LexLIP(config, tokenizer, vocabulary)
    with torch.no_grad():  # vectors of a few terms rather than of half the vocabulary or none
        for head in (model.image_head, model.text_head):
            head.decoder.normal_(std=0.5)
            head.bias.fill_(-0.5)
    return model.eval()


def tiny_photos(number: int, size: int = 32, seed: int = 0) -> Tensor:
    """Noise, uint8 [number, 3, size, size]."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (number, 3, size, size), dtype=torch.uint8, generator=generator)
