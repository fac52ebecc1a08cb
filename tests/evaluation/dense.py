"""A dense model of a few thousand parameters."""

from dataclasses import replace

import torch

from lexlip.config import ModelConfig
from lexlip.encoders.text import load_tokenizer
from lexlip.models.dense import Dense
from tests.tiny import CAPTIONS, TINY


def tiny_dense(config: ModelConfig = TINY, seed: int = 0) -> Dense:
    """Random weights, vectors of 16 real numbers."""
    torch.manual_seed(seed)
    config = replace(config, kind="dense")
    return Dense(config, load_tokenizer(config.text, CAPTIONS), name="cls").eval()
