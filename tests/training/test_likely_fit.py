import numpy as np
import pytest
from scipy.sparse import csr_matrix

from lexlip.data import Scenes, Source
from lexlip.training.likely_fit import encode_captioned, fit_likely
from tests.tiny import tiny_model

WIDTH, NUMBER = 6, 4000


def test_a_word_is_as_likely_as_it_is_said() -> None:
    """Words are said with chances that depend on the photo's other words; the fit finds them."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, NUMBER)  # two kinds of photos, each with words of its own, 4 and 5 on all
    vectors = np.zeros((NUMBER, WIDTH), dtype=np.float32)
    vectors[np.arange(NUMBER), kind] = 1
    vectors[np.arange(NUMBER), 2 + kind] = 1
    vectors[:, 4:] = 1
    chance = np.where(kind == 0, 0.9, 0.2)
    said = np.zeros((NUMBER, WIDTH), dtype=np.float32)
    said[:, 4] = rng.random(NUMBER) < chance
    said[:, 5] = rng.random(NUMBER) < 1 - chance
    likely = fit_likely(csr_matrix(vectors), csr_matrix(said), np.ones(NUMBER))
    found = likely.chances(csr_matrix(vectors[[np.argmax(kind == 0), np.argmax(kind == 1)]])).toarray()
    np.testing.assert_allclose(found[:, 4], [0.9, 0.2], atol=0.06)
    np.testing.assert_allclose(found[:, 5], [0.1, 0.8], atol=0.06)


def test_photos_count_by_their_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = csr_matrix(np.ones((2, 3), dtype=np.float32))
    said = csr_matrix(np.array([[1, 0, 0], [0, 1, 0]], dtype=np.float32))
    likely = fit_likely(vectors, said, np.array([3.0, 1.0]))
    np.testing.assert_allclose(likely.chances(vectors).toarray()[0, :2], [0.75, 0.25], atol=0.06)


def test_the_photos_of_sources_are_encoded_and_their_captions_read() -> None:
    model = tiny_model()
    sources: list[Source] = [Scenes(5, seed=1), Scenes(4, seed=2)]
    vectors, said, weights = encode_captioned(model, sources, workers=0)
    items = [item for source in sources for item in source.items]
    assert weights.tolist() == [len(item.captions) for item in items]
    photos = [source.image(row) for source in sources for row in range(len(source))]
    np.testing.assert_allclose(vectors.toarray(), model.encode_image(photos).toarray(), atol=0.05)
    for row, item in zip(said.toarray(), items, strict=True):
        words = {word for caption in item.captions for word in caption.lower().replace(",", " ").split()}
        held = {word for word, present in zip(model.vocabulary.words, row, strict=True) if present}
        assert held == words & set(model.vocabulary.words)


def test_no_photo_can_be_read() -> None:
    with pytest.raises(ValueError, match="no photo with captions"):
        encode_captioned(tiny_model(), [])
