from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from lexlip.config import ImageEncoderConfig
from lexlip.encoders.image import ImageEncoder
from lexlip.errors import ModelError
from lexlip.models import image_graph as module
from lexlip.models.image_graph import image_graph
from lexlip.models.lexlip import LexLIP
from lexlip.models.model_folder import GRAPH, check_model
from lexlip.queries.photo_encoder import PhotoEncoder
from tests.tiny import TINY, tiny_model, tiny_photos

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
