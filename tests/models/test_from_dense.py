from pathlib import Path

import pytest
from numpy.testing import assert_allclose

from lexlip.config import VocabularyConfig
from lexlip.errors import ModelError
from lexlip.models.clip import Clip
from lexlip.models.dense import Dense
from lexlip.models.from_dense import lexlip_of, load_dense
from lexlip.words.vocabulary import Vocabulary
from tests.tiny import CAPTIONS, tiny_dense, tiny_model, tiny_photos
from tests.tiny_clip import write_clip

TEXTS = [*CAPTIONS, " ".join(["two dogs"] * 20), ""]


def words_of(dense: Clip | Dense) -> Vocabulary:
    return Vocabulary.build(VocabularyConfig("words", 1), dense.tokenizer, CAPTIONS)


@pytest.mark.parametrize("kind", ["clip", "dense"])
def test_vectors_before_words_are_those_of_the_dense_model(kind: str, tmp_path: Path) -> None:
    if kind == "clip":
        write_clip(tmp_path / kind)
    else:
        tiny_dense().save(tmp_path / kind)
    dense = load_dense(tmp_path / kind)
    model, photos = lexlip_of(dense, words_of(dense), "words"), tiny_photos(3)
    states = model.pooled_image(model.image_encoder(photos))
    projected = model.image_head.project(states).detach().numpy()
    assert_allclose(projected, dense.encode_image(photos).toarray(), rtol=1e-4, atol=1e-5)
    ids, mask = model.text_encoder.tokenize(TEXTS)
    states = model.pooled_text(model.text_encoder(ids, mask), mask)
    projected = model.text_head.project(states).detach().numpy()
    assert_allclose(projected, dense.encode_text(TEXTS).toarray(), rtol=1e-4, atol=1e-5)
    assert model.name == "words"


def test_models_that_have_no_dense_vectors(tmp_path: Path) -> None:
    tiny_model().save(tmp_path / "lexlip")
    with pytest.raises(ModelError, match="is a lexlip model, which has words already: give a CLIP model"):
        load_dense(tmp_path / "lexlip")
    with pytest.raises(ModelError, match="'bm25' is a bm25 model: give a CLIP model or one of kind dense"):
        load_dense("bm25")
