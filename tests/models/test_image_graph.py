from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lexlip.config import ImageEncoderConfig, VocabularyConfig
from lexlip.encoders.image import ImageEncoder
from lexlip.errors import ModelError
from lexlip.models import image_graph as module
from lexlip.models.image_graph import frozen_tokens, image_graph
from lexlip.models.lexlip import LexLIP
from lexlip.models.model_folder import GRAPH, check_model
from lexlip.queries.photo_encoder import PhotoEncoder, open_encoder
from lexlip.training.lexicon_fit import load_towers, towers_of
from lexlip.words.vocabulary import Vocabulary
from tests.tiny import CAPTIONS, TINY, tiny_dense, tiny_model, tiny_photos
from tests.tiny_clip import write_clip, write_siglip

CONVOLUTIONAL = replace(TINY, image=ImageEncoderConfig(name="mobilenetv2_035", size=64))


@pytest.fixture(scope="module")
def model() -> LexLIP:
    return tiny_model(CONVOLUTIONAL)


def test_the_graph_that_ships_is_that_of_the_model(tmp_path: Path) -> None:
    """Another torch may order operators in another way; vectors stay."""
    LexLIP.from_pretrained("mini").save(tmp_path / "mini", small=True)
    assert check_model(tmp_path / "mini") == []
    assert (tmp_path / "mini" / GRAPH).stat().st_size < 100_000
    encoders = PhotoEncoder(tmp_path / "mini"), PhotoEncoder("mini")
    side = encoders[0].config.image.size
    pixels = np.random.default_rng(0).integers(0, 256, (3, 3, side, side), dtype=np.uint8)
    made, shipped = (encoder.encode_image(pixels) for encoder in encoders)
    assert abs(made - shipped).max() < 1e-5


def test_a_saved_model_has_the_graph_of_its_size(model: LexLIP, tmp_path: Path) -> None:
    for size in (64, 96):
        photos = tiny_photos(3, size)
        model.resize(size)
        model.train()
        model.save(tmp_path)
        assert model.training
        lean = PhotoEncoder(tmp_path)
        vectors = model.encode_image(photos).toarray()
        assert vectors.any()
        np.testing.assert_allclose(lean.encode_image(photos.numpy()).toarray(), vectors, atol=1e-4)
    model.save(tmp_path, graph=False)  # which leaves none of the weights before
    assert not (tmp_path / GRAPH).exists()
    assert check_model(tmp_path) == []


def test_a_frozen_body_s_tokens_without_torch(model: LexLIP) -> None:
    encoder, photos = model.image_encoder.train(), tiny_photos(5, 64)
    other_size = tiny_photos(1, 96)
    with torch.no_grad():
        tokens, of_other_size = encoder.tokens(photos), encoder.tokens(other_size)
        encoder.without_gradient = frozen_tokens(encoder)
        try:
            assert encoder.training
            torch.testing.assert_close(encoder.tokens(photos), tokens, rtol=1e-3, atol=1e-4)
            torch.testing.assert_close(encoder.tokens(other_size), of_other_size, rtol=1e-3, atol=1e-4)
            with torch.enable_grad():
                assert encoder.tokens(photos).requires_grad
        finally:
            encoder.without_gradient = None


@pytest.mark.parametrize("kind", ["clip", "siglip", "cls", "mean", "convolutional"])
def test_pooled_heads_on_transformers_and_others(kind: str, tmp_path: Path) -> None:
    dense: Any
    if kind == "siglip":
        dense = load_towers(write_siglip(tmp_path / "siglip"))
    elif kind == "clip":
        dense = load_towers(write_clip(tmp_path / "clip"))
    elif kind == "convolutional":
        dense = tiny_dense(CONVOLUTIONAL)
    else:
        dense = tiny_dense(replace(TINY, pooling=kind))  # type: ignore[arg-type]
    towers = towers_of(dense)
    vocabulary = Vocabulary.build(VocabularyConfig("words"), towers.tokenizer, CAPTIONS)
    model = towers.lexlip(vocabulary, "words")
    model.image_head.mean.data = torch.linspace(-0.2, 0.2, model.config.joint)
    model.save(tmp_path / "words")
    lean, size = open_encoder(tmp_path / "words", "cpu"), model.config.image.size
    assert isinstance(lean, PhotoEncoder)
    for number in (1, 3):
        photos = tiny_photos(number, size)
        vectors = model.encode_image(photos).toarray()
        assert vectors.any()
        np.testing.assert_allclose(lean.encode_image(photos.numpy()).toarray(), vectors, atol=1e-4)


def test_other_encoders_are_refused() -> None:
    with pytest.raises(ModelError, match=r"need torch$"):
        image_graph(tiny_model())
    assert tiny_model().image_graph() is None


def test_an_unknown_operator_is_named(model: LexLIP, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(module.OPERATORS, "conv2d")
    with pytest.raises(
        ModelError, match=r"^'mobilenetv2_035' has the operator conv2d: its photos need torch$"
    ):
        image_graph(model)


def test_a_graph_that_computes_something_else_is_refused(
    model: LexLIP, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(module.OPERATORS, "gelu", module.OPERATORS["contiguous"])
    with pytest.raises(ModelError, match=r"^the graph of 'mobilenetv2_035' differs from it: its photos"):
        image_graph(model)
    model.save(tmp_path)
    assert not (tmp_path / GRAPH).exists()


def test_an_encoder_that_cannot_be_traced_is_refused(model: LexLIP, monkeypatch: pytest.MonkeyPatch) -> None:
    def tokens(self: ImageEncoder, normalised: torch.Tensor) -> torch.Tensor:
        raise ZeroDivisionError

    monkeypatch.setattr(ImageEncoder, "body_tokens", tokens)
    with pytest.raises(ModelError, match=r"^'mobilenetv2_035' has no graph: its photos need torch$"):
        image_graph(model)
