from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from lexlip.models.compression import expand
from lexlip.queries.saved_weights import SavedWeights
from tests.tiny import tiny_model

WORDS = "text_encoder.body.embeddings.word_embeddings.weight"


@pytest.mark.parametrize("small", [False, True])
def test_weights_are_those_of_the_file(tmp_path: Path, small: bool) -> None:
    model = tiny_model()
    model.save(tmp_path, small=small)
    plain = expand(load_file(tmp_path / "model.safetensors"))
    with SavedWeights(tmp_path) as weights:
        assert weights.shape("text_head.bias") == [len(model.vocabulary)]
        assert np.array_equal(weights.vector("text_head.bias"), plain["text_head.bias"].astype(np.float32))
        assert np.array_equal(weights.tensor(WORDS), plain[WORDS])
        whole, scales = weights.matrix(WORDS)
    assert whole.dtype == np.int8
    step = np.abs(plain[WORDS]).max(axis=1) / 127  # each row has its own scale
    assert (np.abs(whole * scales[:, None] - plain[WORDS]) <= 0.51 * step[:, None] + 1e-6).all()
