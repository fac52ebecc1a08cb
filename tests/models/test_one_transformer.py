from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from lexlip.config import ImageEncoderConfig
from lexlip.errors import ModelError
from lexlip.models.load import load_model, load_reranker
from lexlip.models.one_transformer import BE, CE, Joint, OneTransformer, VLDeformer
from lexlip.registry import MODELS
from tests.tiny import CAPTIONS, TINY, check_vectors, tiny_photos, tiny_stage

CONVOLUTIONAL = replace(TINY, image=ImageEncoderConfig(name="mobilenetv2_035", size=64))


def transformer(model: OneTransformer, embedded: Tensor) -> Tensor:
    """BERT's layers on embedded tokens [L, D] of one sequence without padding."""
    return model.text_encoder.body.encoder(embedded[None])[0][0]


def embedded_photo(model: OneTransformer, photo: Tensor) -> Tensor:
    states = model.image_encoder(photo[None])[0]
    return model.image_norm(model.image_projection(states) + model.image_position)


@pytest.mark.parametrize("config", [TINY, CONVOLUTIONAL], ids=["ViT", "convolutional"])
@pytest.mark.parametrize("kind", ["be", "vldeformer", "joint"])
@torch.no_grad()
def test_vectors_are_means_over_the_tokens_of_one_side(kind: str, config) -> None:
    model, photos = tiny_stage(kind, config), tiny_photos(3, config.image.size)
    finish = np.tanh if kind == "vldeformer" else np.asarray
    for photo, found in zip(photos, model.encode_image(photos).toarray(), strict=True):
        expected = finish(transformer(model, embedded_photo(model, photo)).mean(dim=0).numpy())
        check_vectors(found, expected)
    for text, found in zip(CAPTIONS, model.encode_text(CAPTIONS).toarray(), strict=True):
        ids, _ = model.text_encoder.tokenize([text])
        states = transformer(model, model.text_encoder.body.embeddings(ids)[0])
        check_vectors(found, finish(states.mean(dim=0).numpy()))


@torch.no_grad()
def test_first_tokens_on_request() -> None:
    model, photos = tiny_stage("vldeformer", replace(TINY, pooling="cls")), tiny_photos(2)
    for photo, found in zip(photos, model.encode_image(photos).toarray(), strict=True):
        expected = torch.tanh(transformer(model, embedded_photo(model, photo))[0]).numpy()
        check_vectors(found, expected)
    ids, _ = model.text_encoder.tokenize(CAPTIONS[:1])
    expected = torch.tanh(transformer(model, model.text_encoder.body.embeddings(ids)[0])[0]).numpy()
    found = model.encode_text(CAPTIONS[:1]).toarray()[0]
    check_vectors(found, expected)


@pytest.mark.parametrize("kind", ["ce", "joint"])
@torch.no_grad()
def test_a_pair_is_one_sequence_whose_cls_is_classified(kind: str) -> None:
    model, photos = tiny_stage(kind), tiny_photos(3)
    pairs = np.array([(t, b) for t in range(len(CAPTIONS)) for b in range(3)])
    found = model.score_pairs(model.embed_photos(photos), CAPTIONS, pairs)
    for (t, b), score in zip(pairs, found, strict=True):
        ids, _ = model.text_encoder.tokenize([CAPTIONS[t]])
        text = model.text_encoder.body.embeddings(ids)[0]
        states = transformer(model, torch.cat([text, embedded_photo(model, photos[b])]))
        log_probability = torch.log_softmax(model.classifier(states[0]), dim=0)
        assert score == pytest.approx(float(log_probability[1] - log_probability[0]), rel=1e-2, abs=1e-3)


def test_no_pairs() -> None:
    model = tiny_stage("ce")
    embedded = model.embed_photos(tiny_photos(1))
    assert model.score_pairs(embedded, [], np.empty((0, 2), np.int64)).shape == (0,)


def test_pairs_do_not_depend_on_what_is_scored_with_them() -> None:
    model, photos = tiny_stage("ce"), tiny_photos(4)
    embedded = model.embed_photos(photos)
    texts = [" ".join(CAPTIONS[i % 6].split()[: 1 + i % 9]) for i in range(30)]
    pairs = np.stack(np.divmod(np.arange(120), 4), axis=1)
    together = model.score_pairs(embedded, texts, pairs)
    alone = [model.score_pairs(embedded, [texts[t]], np.array([[0, b]]))[0] for t, b in pairs]
    check_vectors(together, alone)


def test_where_a_patch_lies_is_told(tmp_path: Path) -> None:
    model, photo = tiny_stage("be"), tiny_photos(1)
    before = model.encode_image(photo).toarray()
    with torch.no_grad():
        model.image_position += torch.randn(model.image_position.shape)
    assert np.abs(model.encode_image(photo).toarray() - before).max() > 1e-2


@pytest.mark.parametrize("cls", [BE, CE, Joint, VLDeformer])
def test_a_saved_model_is_the_same_and_starts_its_relatives(cls, tmp_path: Path) -> None:
    kind = cls.kind
    model, photos = tiny_stage(kind), tiny_photos(3)
    model.save(tmp_path)
    loaded = load_reranker(tmp_path) if MODELS[kind].pairs else load_model(tmp_path)
    assert type(loaded) is cls
    assert (loaded.can.vectors, loaded.can.pairs) == (kind != "ce", kind in ("ce", "joint"))
    pairs = np.array([[0, 1], [5, 2]])
    scores = [m.score_pairs(m.embed_photos(photos), CAPTIONS, pairs) for m in (model, loaded)]
    assert np.array_equal(*scores)
    for other in (BE, CE, Joint, VLDeformer):
        relative = other.from_pretrained(tmp_path, or_relative=True)
        torch.testing.assert_close(relative.state_dict(), model.state_dict())
        if other is not cls:
            with pytest.raises(ModelError, match=f"holds a {kind} model, not a {other.kind} one"):
                other.from_pretrained(tmp_path)


def test_strangers_start_nothing(tmp_path: Path) -> None:
    tiny_stage("lightningdot").save(tmp_path)
    with pytest.raises(ModelError, match="holds a lightningdot model, not a ce one"):
        CE.from_pretrained(tmp_path, or_relative=True)


def test_another_size_interpolates_the_positions() -> None:
    model = tiny_stage("be")
    model.resize(64)
    assert model.image_position.shape == (1 + 64, 16)  # [CLS] and 8 x 8 patches
    assert model.encode_image(tiny_photos(2, 64)).shape == (2, 16)


def test_photos_may_have_more_tokens_than_captions_have_positions() -> None:
    text = replace(TINY.text, options={**TINY.text.options, "max_position_embeddings": 20})
    model = tiny_stage("ce", replace(TINY, text=text))
    ids, _ = model.text_encoder.tokenize([CAPTIONS[0]])
    assert ids.shape[1] < 20 < ids.shape[1] + model.image_encoder.positions
    score = model.score_pairs(model.embed_photos(tiny_photos(1)), [CAPTIONS[0]], np.array([[0, 0]]))
    assert np.isfinite(score).all()


def framed_photo(model: OneTransformer, photo: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """[CLS], the photo's tokens and [SEP], all of the second segment: [1, D], [P, D] and [1, D]."""
    states = model.image_encoder(photo[None])[0]
    layer, tokenizer = model.text_encoder.body.embeddings, model.text_encoder.tokenizer
    projected = model.image_projection(states) + model.image_position + layer.token_type_embeddings.weight[1]
    ids = torch.tensor([[tokenizer.cls_token_id, tokenizer.sep_token_id]])
    cls, sep = layer(ids, token_type_ids=torch.ones_like(ids))[0].split(1)
    return cls, model.image_norm(projected), sep


@torch.no_grad()
def test_framed_photos() -> None:
    model, photos = tiny_stage("joint", replace(CONVOLUTIONAL, framed_photos=True)), tiny_photos(2, 64)
    for photo, found in zip(photos, model.encode_image(photos).toarray(), strict=True):
        expected = transformer(model, torch.cat(framed_photo(model, photo))).mean(dim=0).numpy()
        check_vectors(found, expected)
    first = tiny_stage("joint", replace(CONVOLUTIONAL, framed_photos=True, pooling="cls"))
    found = first.encode_image(photos[:1]).toarray()[0]
    expected = transformer(first, torch.cat(framed_photo(first, photos[0])))[0].numpy()
    check_vectors(found, expected)

    ids, _ = model.text_encoder.tokenize(CAPTIONS[:1])
    words = model.text_encoder.body.embeddings(ids)[0]
    _, tokens, sep = framed_photo(model, photos[1])
    cls = transformer(model, torch.cat([words, tokens, sep]))[0]
    logits = model.classifier(cls)
    found = model.score_pairs(model.embed_photos(photos), CAPTIONS[:1], np.array([[0, 1]]))
    np.testing.assert_allclose(found, [float(logits[1] - logits[0])], rtol=2e-2, atol=2e-3)


def test_frames_need_a_second_segment() -> None:
    one_segment = replace(TINY.text, options={**TINY.text.options, "type_vocab_size": 1})
    model = tiny_stage("be", replace(TINY, text=one_segment, framed_photos=True))
    with pytest.raises(ModelError, match="has no second segment for photos"):
        model.encode_image(tiny_photos(1))
