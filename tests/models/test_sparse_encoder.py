from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lexlip.errors import DataError, ModelError
from tests.tiny import CAPTIONS, check_vectors, tiny_dense, tiny_model

pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
from sentence_transformers import SparseEncoder

from lexlip.models.sparse_encoder import LexicalModule


def pictures(number: int) -> list[Image.Image]:
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)) for _ in range(number)]


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_texts_and_photos_have_the_model_s_vectors() -> None:
    model = tiny_model()
    encoder = SparseEncoder(modules=[LexicalModule(model)])
    assert encoder.get_embedding_dimension() == len(model.vocabulary)
    texts = encoder.encode(CAPTIONS)
    assert texts.is_sparse
    check_vectors(texts.to_dense(), model.encode_text(CAPTIONS))
    photos = encoder.encode_document(pictures(3))
    wanted = model.encode_image(pictures(3)).toarray()
    check_vectors(photos.to_dense(), wanted)
    scores = encoder.similarity(encoder.encode_query(CAPTIONS[:2]), photos)
    dense = scores.to_dense() if scores.is_sparse else scores
    check_vectors(dense, model.encode_text(CAPTIONS[:2]).toarray() @ wanted.T)


def test_entries_are_words() -> None:
    model = tiny_model()
    encoder = SparseEncoder(modules=[LexicalModule(model)])
    [found] = encoder.decode(encoder.encode(CAPTIONS[:1]), top_k=3)
    row = model.encode_text(CAPTIONS[0]).toarray()[0]
    heaviest = np.argsort(-row)[:3]
    assert [word for word, _ in found] == [model.vocabulary.words[column] for column in heaviest]


def test_saved_and_loaded(tmp_path: Path) -> None:
    model = tiny_model()
    SparseEncoder(modules=[LexicalModule(model)]).save_pretrained(str(tmp_path / "encoder"))
    loaded = SparseEncoder(str(tmp_path / "encoder"), trust_remote_code=True)
    check_vectors(loaded.encode(CAPTIONS).to_dense(), model.encode_text(CAPTIONS))


def test_what_cannot_be_encoded(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="texts alone, or pictures"):
        LexicalModule(tiny_model()).preprocess(["a dog", pictures(1)[0]])
    tiny_dense().save(tmp_path)
    with pytest.raises(ModelError):
        LexicalModule(tmp_path)
