from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from lexlip.models.dense import LightningDOT
from lexlip.models.load import load_model
from tests.tiny import CAPTIONS, tiny_photos, tiny_stage


@torch.no_grad()
def test_vectors_are_cls_through_two_layers() -> None:
    model, photos = tiny_stage("lightningdot"), tiny_photos(3)
    for found, projection, states in (
        (model.encode_image(photos), model.image_projection, model.image_encoder(photos)),
        (model.encode_text(CAPTIONS[:1]), model.text_projection, None),
    ):
        if states is None:
            states = model.text_encoder(*model.text_encoder.tokenize(CAPTIONS[:1]))
        first, _, norm, last = projection
        assert first.out_features == 2 * last.out_features == 32
        expected = last(F.layer_norm(F.gelu(first(states[:, 0])), (32,), norm.weight, norm.bias))
        np.testing.assert_allclose(found.toarray(), expected.numpy(), rtol=1e-4, atol=1e-5)


def test_a_saved_model_is_compared_by_dot_products(tmp_path: Path) -> None:
    model = tiny_stage("lightningdot")
    model.save(tmp_path)
    loaded = load_model(tmp_path)
    assert isinstance(loaded, LightningDOT)
    assert loaded.metric == "dot"
    assert np.array_equal(loaded.encode_text(CAPTIONS).toarray(), model.encode_text(CAPTIONS).toarray())
