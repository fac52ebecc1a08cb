"""The query encoder with a network: the text encoder and its lexicon head, in ONNX Runtime or in torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lexlip.queries.onnx_bert import BertSession, is_supported
from lexlip.queries.query_tokenizer import QueryTokenizer
from lexlip.queries.saved_weights import Encode, SavedWeights, Vector


def network(
    folder: Path, description: dict[str, Any], weights: SavedWeights, tokenizer: QueryTokenizer
) -> Encode:
    """Return what encodes sentences with the text encoder.

    Args:
        folder: the model's.
        description: see `lexlip.models.model_folder.read_description`.
        weights: the model's.
        tokenizer: splits sentences.
    """
    architecture = description["text_architecture"]
    if not is_supported(architecture) or description["model"].get("joint"):
        return _in_torch(folder)
    session = BertSession(architecture, weights)
    pools_all = description["model"]["special_positions"]

    def encode(text: str) -> Vector:
        ids = tokenizer.sentence(text)
        pooled = np.flatnonzero(pools_all | ~np.isin(ids, tokenizer.special))
        if not len(pooled):
            return np.zeros(session.words, np.float32)
        vector: Vector = np.log1p(np.maximum(session.logits(ids, pooled), 0))
        return vector

    return encode


def _in_torch(folder: Path) -> Encode:
    from lexlip.models.lexlip import LexLIP

    model = LexLIP.from_pretrained(folder)
    return lambda text: model.encode_text([text]).toarray()[0]
