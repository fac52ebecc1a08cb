from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import vstack

from lexlip.data import Scenes, open_source
from lexlip.errors import DataError
from lexlip.bench.corpus.distractors import recombined
from lexlip.measure.pool import CHUNK, Documents, encode_pool
from lexlip.models.lexlip import LexLIP
from tests.conftest import write_photos
from tests.measure.pools import make_pool
from tests.tiny import tiny_model


@pytest.fixture(scope="module")
def model() -> LexLIP:
    return tiny_model()


def test_those_that_ask_come_first(model: LexLIP, photos: Path, tmp_path: Path) -> None:
    (photos / "1.txt").unlink()
    (photos / "2.txt").write_text("a dog\na cat\n")
    (photos / "3.jpg").write_text("no photo")
    bare = write_photos(tmp_path / "bare", 3)
    for text in bare.glob("*.txt"):
        text.unlink()
    scenes = Scenes(2, seed=1)
    pool = encode_pool(model, open_source(photos), [open_source(bare), scenes], workers=0)
    first = [f"photos/{number}.jpg" for number in (0, 1, 2, 4, 5)]
    assert pool.image_ids[:8] == [*first, *(f"bare/{number}.jpg" for number in range(3))]
    assert len(pool.image_ids) == pool.images.shape[0] == 10
    assert pool.text_ids[:4] == ["photos/0.jpg#0", "photos/2.jpg#0", "photos/2.jpg#1", "photos/4.jpg#0"]
    assert pool.texts[1:3] == ["a dog", "a cat"]
    assert len(pool.texts) == pool.captions.shape[0] == 5 + 10
    assert pool.owners.tolist() == [0, 2, 2, 3, 4] + [8] * 5 + [9] * 5
    assert (pool.asking, pool.asking_images.tolist()) == (5, [0, 2, 3, 4])
    assert [skip.id for skip in pool.skipped] == ["photos/3.jpg"]
    assert pool.right_images[1:4] == [{"photos/2.jpg"}, {"photos/2.jpg"}, {"photos/4.jpg"}]
    assert pool.right_texts[:2] == [{"photos/0.jpg#0"}, {"photos/2.jpg#0", "photos/2.jpg#1"}]
    size = model.config.image.size
    expected = model.encode_image([open_source(photos).image(number, size) for number in (0, 1, 2, 4, 5)])
    np.testing.assert_allclose(pool.images[:5].toarray(), expected.toarray(), rtol=1e-4, atol=1e-5)
    expected = model.encode_text(pool.texts)
    np.testing.assert_allclose(pool.captions.toarray(), expected.toarray(), rtol=1e-4, atol=1e-5)


def test_captions_of_photos_that_cannot_be_read_do_not_ask(model: LexLIP, photos: Path) -> None:
    for photo in photos.glob("*.jpg"):
        photo.write_bytes(b"")
    says = "no photo of .*photos that can be read has a caption to ask with"
    with pytest.raises(DataError, match=says):
        encode_pool(model, open_source(photos), [Scenes(2, seed=0)], workers=0)
    with pytest.raises(DataError, match=says):
        encode_pool(model, open_source(photos), [], workers=0)


def test_documents_are_real_ones_and_then_synthetic_ones() -> None:
    pool = make_pool()
    documents = Documents(pool.image_ids, pool.images, CHUNK + 3, recombined, pool.further_images, seed=5)
    for _ in range(2):
        chunks = list(documents)
        assert [len(ids) for ids, _ in chunks] == [40, CHUNK, 3]
        ids = [id for names, _ in chunks for id in names]
        assert len(documents) == len(ids) == len(set(ids))
        assert ids[:40] != pool.image_ids
        rows = [pool.image_ids.index(id) for id in ids[:40]]
        np.testing.assert_array_equal(chunks[0][1].toarray(), pool.images[rows].toarray())
        assert ids[40:42] == ["synthetic/0", "synthetic/1"]
        made = vstack([rows for _, rows in chunks[1:]], format="csr")
        expected = vstack(list(recombined(pool.images[10:], CHUNK + 3, seed=5)), format="csr")
        np.testing.assert_array_equal(made.toarray(), expected.toarray())
    assert [len(ids) for ids, _ in replace(documents, synthetic=0)] == [40]


def test_further_ones_do_not_ask() -> None:
    pool = make_pool()
    np.testing.assert_array_equal(pool.further_images.toarray(), pool.images[10:].toarray())
    np.testing.assert_array_equal(pool.further_texts.toarray(), pool.captions[30:].toarray())
    uncaptioned = replace(pool, owners=pool.owners + 2)  # the first two photos have no caption
    rows = [0, 1, *range(12, 40)]
    np.testing.assert_array_equal(uncaptioned.further_images.toarray(), pool.images[rows].toarray())


def test_without_further_ones_all_are_taken() -> None:
    pool = make_pool(photos=10)
    np.testing.assert_array_equal(pool.further_images.toarray(), pool.images.toarray())
    np.testing.assert_array_equal(pool.further_texts.toarray(), pool.captions.toarray())
