from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lexlip.config import ImageEncoderConfig
from lexlip.errors import ModelError
from lexlip.models.dense import Dense
from lexlip.models.load import load_model
from tests.tiny import CAPTIONS, TINY, tiny_dense, tiny_photos

CONVOLUTIONAL = replace(TINY, image=ImageEncoderConfig(name="mobilenetv2_035", size=32, layers=1))


def test_vectors_are_projections_of_cls() -> None:
    model, photos = tiny_dense(), tiny_photos(3)
    projection = model.image_projection
    for row, state in enumerate(model.image_encoder(photos)[:, 0].tolist()):
        plain = [
            sum(w * s for w, s in zip(weights, state, strict=True)) + bias
            for weights, bias in zip(projection.weight.tolist(), projection.bias.tolist(), strict=True)
        ]
        assert model.encode_image(photos)[row].toarray()[0].tolist() == pytest.approx(
            plain, rel=1e-4, abs=1e-5
        )
    for text in CAPTIONS:
        ids, mask = model.text_encoder.tokenize([text])
        expected = model.text_projection(model.text_encoder(ids, mask)[0, 0])
        found = model.encode_text([text]).toarray()[0]
        np.testing.assert_allclose(found, expected.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_without_cls_photos_are_the_mean_of_their_tokens() -> None:
    model, photos = tiny_dense(CONVOLUTIONAL), tiny_photos(3)
    assert model.image_encoder.prefix_tokens == 0
    expected = model.image_projection(model.image_encoder(photos).mean(dim=1)).detach()
    np.testing.assert_allclose(model.encode_image(photos).toarray(), expected.numpy(), rtol=1e-4, atol=1e-5)


def test_the_mean_of_all_tokens_on_request() -> None:
    """Padding does not count."""
    model, photos = tiny_dense(replace(TINY, pooling="mean")), tiny_photos(3)
    expected = model.image_projection(model.image_encoder(photos).mean(dim=1)).detach()
    np.testing.assert_allclose(model.encode_image(photos).toarray(), expected.numpy(), rtol=1e-4, atol=1e-5)
    together = model.encode_text(CAPTIONS).toarray()
    for text, found in zip(CAPTIONS, together, strict=True):
        ids, mask = model.text_encoder.tokenize([text])
        expected = model.text_projection(model.text_encoder(ids, mask)[0].mean(dim=0)).detach()
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_vectors_are_as_wide_as_the_text_encoder() -> None:
    model = tiny_dense()
    assert model.dimensions == 16
    assert model.encode_image(tiny_photos(2)).shape == (2, 16)
    assert model.encode_text(CAPTIONS).shape == (6, 16)
    assert model.encode_text([]).shape == (0, 16)
    assert (model.encode_text(CAPTIONS).toarray() < 0).any()
    assert model.vocabulary is None


def test_texts_do_not_depend_on_their_batch() -> None:
    model = tiny_dense()
    texts = [" ".join(CAPTIONS[i % 6].split()[: 1 + i % 9]) for i in range(90)]
    alone = np.concatenate([model.encode_text([text]).toarray() for text in texts])
    np.testing.assert_allclose(model.encode_text(texts, batch=50).toarray(), alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("config", [TINY, CONVOLUTIONAL], ids=["ViT", "convolutional"])
def test_a_saved_model_gives_the_same_vectors(config, tmp_path: Path) -> None:
    model, photos = tiny_dense(config), tiny_photos(3)
    model.save(tmp_path)
    assert not (tmp_path / "vocabulary.txt").exists()
    for loaded in (Dense.from_pretrained(tmp_path), load_model(tmp_path)):
        assert isinstance(loaded, Dense)
        assert not loaded.training
        assert loaded.identity == model.identity
        assert loaded.config == replace(config, kind="dense")
        assert (loaded.encode_image(photos) != model.encode_image(photos)).nnz == 0
        assert (loaded.encode_text(CAPTIONS) != model.encode_text(CAPTIONS)).nnz == 0


def test_it_has_no_words_to_query_with() -> None:
    with pytest.raises(ModelError, match="has no words: use --query-encoder network") as caught:
        tiny_dense().encode_text(CAPTIONS, "words")
    assert "\n" not in str(caught.value)


def test_a_dense_model_without_weights_is_damaged(tmp_path: Path) -> None:
    tiny_dense().save(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"is damaged: .*No such file"):
        load_model(tmp_path)
