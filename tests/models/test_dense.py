from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lexlip.config import ImageEncoderConfig, ModelConfig
from lexlip.errors import ModelError
from lexlip.models.dense import Dense
from lexlip.models.load import load_model
from tests.tiny import CAPTIONS, TINY, check_same_vectors, check_vectors, tiny_dense, tiny_photos, tiny_stage

CONVOLUTIONAL = replace(TINY, image=ImageEncoderConfig(name="mobilenetv2_035", size=32, layers=1))


def projected(projection: nn.Module, state: Tensor) -> Tensor:
    """One linear layer, or LightningDOT's two, written out."""
    if isinstance(projection, nn.Linear):
        return state @ projection.weight.t() + projection.bias
    first, _, norm, last = projection.children()
    assert first.out_features == 2 * last.out_features == 32
    return last(F.layer_norm(F.gelu(first(state)), (32,), norm.weight, norm.bias))


@pytest.mark.parametrize(
    ("kind", "config", "mean"),
    [
        ("dense", TINY, ""),
        ("dense", CONVOLUTIONAL, "photos"),  # which have no [CLS]
        ("dense", replace(TINY, pooling="mean"), "photos and texts"),
        ("lightningdot", TINY, ""),
    ],
)
@torch.no_grad()
def test_vectors_are_projections_of_cls_or_of_the_mean(kind: str, config: ModelConfig, mean: str) -> None:
    """Of texts padding does not count."""
    model, photos = tiny_stage(kind, config), tiny_photos(3)
    states = model.image_encoder(photos)
    pooled = states.mean(dim=1) if "photos" in mean else states[:, 0]
    check_vectors(model.encode_image(photos), projected(model.image_projection, pooled))
    for text, found in zip(CAPTIONS, model.encode_text(CAPTIONS).toarray(), strict=True):
        states = model.text_encoder(*model.text_encoder.tokenize([text]))[0]
        pooled = states.mean(dim=0) if "texts" in mean else states[0]
        check_vectors(found, projected(model.text_projection, pooled))


def test_vectors_are_as_wide_as_the_text_encoder_and_are_no_words() -> None:
    model = tiny_dense()
    assert model.dimensions == 16
    assert model.encode_image(tiny_photos(2)).shape == (2, 16)
    assert model.encode_text(CAPTIONS).shape == (6, 16)
    assert model.encode_text([]).shape == (0, 16)
    assert (model.encode_text(CAPTIONS).toarray() < 0).any()
    assert model.vocabulary is None
    with pytest.raises(ModelError, match="has no words: use --query-encoder network") as caught:
        model.encode_text(CAPTIONS, "words")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["dense", "lightningdot"])
@pytest.mark.parametrize("config", [TINY, CONVOLUTIONAL], ids=["ViT", "convolutional"])
def test_a_saved_model_gives_the_same_vectors(kind: str, config: ModelConfig, tmp_path: Path) -> None:
    model = tiny_stage(kind, config)
    model.save(tmp_path)
    assert not (tmp_path / "vocabulary.txt").exists()
    loaded = load_model(tmp_path)
    assert isinstance(loaded, Dense)
    assert loaded.metric == {"dense": "cosine", "lightningdot": "dot"}[kind]
    for again in (loaded, type(model).from_pretrained(tmp_path)):
        check_same_vectors(again, model)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"is damaged: .*No such file"):
        load_model(tmp_path)
