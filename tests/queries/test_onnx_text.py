from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lexlip.config import VocabularyConfig
from lexlip.models.lexlip import LexLIP
from lexlip.queries import onnx_text
from lexlip.queries.text_queries import TextQueries
from lexlip.training.lexicon_fit import load_towers, towers_of
from lexlip.words.vocabulary import Vocabulary
from tests.queries.saved_models import SENTENCES, cosines, saved
from tests.tiny import CAPTIONS, TINY, tiny_dense, tiny_model
from tests.tiny_clip import write_clip, write_siglip

SIZES = {
    "wide": {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 96},
    "odd": {"hidden_size": 18, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 37},
}


@pytest.mark.parametrize("special_positions", [False, True])
@pytest.mark.parametrize("size", [{}, *SIZES.values()], ids=["tiny", *SIZES])
@pytest.mark.parametrize("small", [False, True])
def test_network_vectors_are_those_of_the_model(
    tmp_path: Path, small: bool, size: dict[str, int], special_positions: bool
) -> None:
    text = replace(TINY.text, options={**TINY.text.options, **size})
    model = tiny_model(text=text, special_positions=special_positions)
    model.save(tmp_path, small=small)
    model = LexLIP.from_pretrained(tmp_path)
    queries = TextQueries(tmp_path)
    found = [queries.encode(sentence) for sentence in SENTENCES]
    expected = model.encode_text(SENTENCES).toarray()
    assert {(row.shape, row.dtype) for row in found} == {((1, len(model.vocabulary)), np.dtype(np.float32))}
    assert cosines(np.concatenate([row.toarray() for row in found]), expected).min() > 0.99


def test_products_without_saturation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What x86 without VNNI computes, on any processor: sums of uint8 and int8 products are cut there."""
    tiny_model().save(tmp_path, small=True)
    monkeypatch.setattr(onnx_text, "_int8_products_saturate", lambda: True)
    queries = TextQueries(tmp_path)
    found = np.concatenate([queries.encode(sentence).toarray() for sentence in SENTENCES])
    assert cosines(found, LexLIP.from_pretrained(tmp_path).encode_text(SENTENCES).toarray()).min() > 0.99


@pytest.fixture(params=["clip", "gelu", "siglip", "siglip2", "cls", "mean", "end"])
def pooled(request: pytest.FixtureRequest, tmp_path: Path) -> LexLIP:
    """A model with the encoders of a CLIP, of any activation, a SigLIP or a dense model, of any pooling."""
    dense: Any
    if request.param.startswith("siglip"):
        dense = load_towers(write_siglip(tmp_path / "dense", second=request.param == "siglip2"))
    elif request.param in ("clip", "gelu"):
        dense = load_towers(
            write_clip(tmp_path / "dense", hidden_act="quick_gelu" if request.param == "clip" else "gelu")
        )
    else:
        dense = tiny_dense(replace(TINY, pooling=request.param))
    towers = towers_of(dense)
    vocabulary = Vocabulary.build(VocabularyConfig("words"), towers.tokenizer, CAPTIONS)
    model = towers.lexlip(vocabulary, "words")
    model.text_head.mean.data = torch.linspace(-0.2, 0.2, model.config.joint)
    return model


@pytest.mark.parametrize("small", [False, True])
def test_pooled_heads_are_those_of_torch(pooled: LexLIP, small: bool, tmp_path: Path) -> None:
    pooled.save(tmp_path / "words", small=small)
    model, queries = LexLIP.from_pretrained(tmp_path / "words"), TextQueries(tmp_path / "words")
    for sentence in [*SENTENCES, " ".join(["two dogs"] * 50), ""]:
        expected = model.encode_text([sentence]).toarray()
        assert expected.any()
        np.testing.assert_allclose(queries.encode(sentence).toarray(), expected, atol=1e-4)


def test_another_type_of_text_encoder_runs_in_torch(tmp_path: Path) -> None:
    text = replace(TINY.text, options={**TINY.text.options, "hidden_act": "relu"})
    model = saved(tmp_path, text=text)
    queries = TextQueries(tmp_path)
    for sentence in SENTENCES:
        found, expected = queries.encode(sentence), model.encode_text([sentence])
        np.testing.assert_allclose(found.toarray(), expected.toarray(), rtol=1e-4, atol=1e-5)


def test_a_network_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server must not start with it."""
    tiny_model().save(tmp_path)

    def fail(*arguments: object) -> None:
        raise MemoryError("std::bad_alloc")

    monkeypatch.setattr(onnx_text, "open_session", fail)
    with pytest.raises(MemoryError, match="bad_alloc"):
        TextQueries(tmp_path)
