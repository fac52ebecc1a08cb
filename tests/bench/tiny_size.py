"""Towers of a few thousand parameters."""

from dataclasses import replace

from lexlip.bench.training_step import Size
from tests.tiny import TINY as MODEL

TINY = Size(
    replace(MODEL.image, options={**MODEL.image.options, "embed_dim": MODEL.text.options["hidden_size"]}),
    replace(MODEL.text, options={**MODEL.text.options, "vocab_size": 20_000}),
    vocabulary=300,
    frozen=("text_encoder.body.embeddings.",),
)
