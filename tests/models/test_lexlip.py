from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from lexlip.config import ImageEncoderConfig, ModelConfig, VocabularyConfig
from lexlip.encoders.lexicon import sparse_vector
from lexlip.models.lexlip import LexLIP
from tests.reference.pooling import naive_sparse_vector
from tests.tiny import CAPTIONS, TINY, check_same_vectors, check_vectors, tiny_model, tiny_photos

CONVOLUTIONAL = replace(TINY, image=ImageEncoderConfig(name="mobilenetv2_035", size=32, layers=1))


@pytest.fixture(scope="module")
def model() -> LexLIP:
    return tiny_model()


def head_to_the_letter(head, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    hidden = head.norm(torch.nn.functional.gelu(head.dense(head.project(states))))
    return naive_sparse_vector(hidden, head.decoder, head.bias, mask)


def test_image_vectors_are_equation_3(model: LexLIP) -> None:
    photos = tiny_photos(3)
    mask = torch.ones(3, 17, dtype=torch.bool)
    mask[:, 0] = False  # [CLS]
    found = model.encode_image(photos)
    check_vectors(found, head_to_the_letter(model.image_head, model.image_encoder(photos), mask))
    assert found.shape == (3, len(model.vocabulary))
    assert found.dtype == np.float32
    assert 0 < found.nnz < found.shape[0] * found.shape[1]
    pictures = [Image.fromarray(photo.permute(1, 2, 0).numpy()) for photo in photos]
    assert (model.encode_image(pictures) != found).nnz == 0


def test_text_vectors_are_equation_6(model: LexLIP) -> None:
    for text in CAPTIONS:
        ids, mask = model.text_encoder.tokenize([text])
        mask[:, [0, -1]] = False  # [CLS], [SEP]
        states = model.text_encoder(ids, torch.ones_like(mask))
        check_vectors(model.encode_text([text]), head_to_the_letter(model.text_head, states, mask))


def test_special_positions_are_pooled_on_request(model: LexLIP) -> None:
    pooled = tiny_model(special_positions=True)
    pooled.load_state_dict(model.state_dict())
    photos = tiny_photos(2)
    everywhere = torch.ones(2, 17, dtype=torch.bool)
    expected = head_to_the_letter(pooled.image_head, model.image_encoder(photos), everywhere)
    check_vectors(pooled.encode_image(photos), expected)
    wider, narrower = pooled.encode_text(CAPTIONS).toarray(), model.encode_text(CAPTIONS).toarray()
    assert (wider >= narrower - 1e-6).all()
    assert (wider > narrower + 1e-3).any()


def test_texts_without_a_known_word_have_no_terms(model: LexLIP) -> None:
    vectors = model.encode_text(["", "zebra", CAPTIONS[0]])
    assert np.diff(vectors.indptr)[:2].tolist() == [0, 0]
    assert vectors[2].nnz > 0
    assert model.encode_text([]).shape == (0, len(model.vocabulary))


def test_word_queries(model: LexLIP) -> None:
    model.bag_of_words.set_weights(torch.arange(1.0, 1 + len(model.vocabulary)))
    vectors = model.encode_text(
        ["Two dogs, two zebras in the snow", "the", CAPTIONS[1]], encoder="words", batch=2
    )
    assert vectors.dtype == np.float32
    row = vectors[0].tocoo()
    named = {model.vocabulary.words[c]: weight for c, weight in zip(row.col, row.data, strict=True)}
    assert named == {
        word: pytest.approx(1 + model.vocabulary.words.index(word)) for word in ("two", "dogs", "snow")
    }
    assert vectors[1].nnz == 0
    assert vectors.shape[0] == 3


def test_raw_outputs_are_what_the_objectives_take(model: LexLIP) -> None:
    ids, mask = model.text_encoder.tokenize(CAPTIONS)
    outputs = {"image": model.raw_image(tiny_photos(4)), "text": model.raw_text(ids, mask)}
    v = len(model.vocabulary)
    assert {name: tuple(o.shape) for name, o in outputs.items()} == {"image": (4, v), "text": (6, v)}
    assert {o.dtype for o in outputs.values()} == {torch.float32}
    assert all((o < 0).any() for o in outputs.values())  # logits, before relu
    check_vectors(sparse_vector(outputs["text"]), model.encode_text(CAPTIONS))
    check_vectors(model.vectors(outputs["image"]), model.encode_image(tiny_photos(4)))


def test_words_present(model: LexLIP) -> None:
    present = model.words_present(CAPTIONS)
    assert (present.shape, present.dtype) == ((6, len(model.vocabulary)), torch.bool)
    for row, caption in enumerate(CAPTIONS):
        held = {w for w, p in zip(model.vocabulary.words, present[row], strict=True) if p}
        assert held == set(caption.replace(",", "").split()) & set(model.vocabulary.words)
    bags = model.bag_of_words(present)
    assert torch.equal(bags > 0, present)
    check_vectors(bags, model.encode_text(CAPTIONS, "words"))


@pytest.mark.parametrize("config", [TINY, CONVOLUTIONAL], ids=["ViT", "convolutional"])
@pytest.mark.parametrize("kind", ["all", "pieces", "words"])
def test_a_saved_model_gives_the_same_vectors(config: ModelConfig, kind: Any, tmp_path: Path) -> None:
    model = tiny_model(config, vocabulary=VocabularyConfig(kind))
    model.save(tmp_path / "new" / "saved")
    loaded = LexLIP.from_pretrained(tmp_path / "new" / "saved")
    assert loaded.vocabulary.words == model.vocabulary.words
    check_same_vectors(loaded, model)


@pytest.mark.slow
def test_a_small_file_gives_nearly_the_same_vectors(tmp_path: Path) -> None:
    model = tiny_model(CONVOLUTIONAL)
    model.save(tmp_path / "full")
    model.save(tmp_path / "small", small=True)
    full, small = (tmp_path / name / "model.safetensors" for name in ("full", "small"))
    assert small.stat().st_size < 0.5 * full.stat().st_size
    loaded = LexLIP.from_pretrained(tmp_path / "small")
    assert {weight.dtype for weight in loaded.state_dict().values()} == {torch.float32, torch.int64}
    for found, expected in [
        (loaded.encode_image(tiny_photos(3)), model.encode_image(tiny_photos(3))),
        (loaded.encode_text(CAPTIONS), model.encode_text(CAPTIONS)),
        (loaded.encode_text(CAPTIONS, "words"), model.encode_text(CAPTIONS, "words")),
    ]:
        a, b = found.toarray(), expected.toarray()
        cosines = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
        assert cosines.min() > 0.98
