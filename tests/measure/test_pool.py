from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from lexlip.data import Scenes, Skipped, open_source
from lexlip.data.source import Concat
from lexlip.encoders.image import to_pixels
from lexlip.errors import DataError, ModelError
from lexlip.measure.pool import CaptionedPool, as_queries, embed_pool, encode_pool, with_pool
from lexlip.models.contract import QueryEncoder
from lexlip.models.lexlip import LexLIP
from lexlip.queries.query_language import Query
from lexlip.queries.text_queries import TextQueries
from lexlip.sparse.rows import unit_length
from tests.conftest import write_photos
from tests.measure.pools import make_pool
from tests.tiny import CAPTIONS, tiny_dense, tiny_model, tiny_stage

SCENES = Scenes(12, seed=0)


@pytest.fixture(scope="module")
def model() -> LexLIP:
    return tiny_model()


# ---- CaptionedPool ----


def test_captions_are_named_after_their_photo() -> None:
    pool = CaptionedPool.of(SCENES)
    assert pool.texts == [caption for item in SCENES.items for caption in item.captions]
    assert pool.text_ids[:6] == [*(f"{pool.image_ids[0]}#{n}" for n in range(5)), f"{pool.image_ids[1]}#0"]
    assert pool.text_queries == 60
    assert pool.all_are_queries
    assert [pool.texts[row] for row in pool.texts_of(7)] == list(SCENES.items[7].captions)
    assert pool.relevant_texts[1] == set(pool.text_ids[5:10])
    assert pool.relevant_images[5] == {pool.image_ids[1]}


def test_a_pool_of_some_photos_with_some_captions() -> None:
    skipped = [Skipped("gone", "no such file")]
    pool = CaptionedPool.of(SCENES, queries=4, rows=[1, 3, 6], captions=2, skipped=skipped)
    assert pool.image_ids == [SCENES.items[row].id for row in (1, 3, 6)]
    assert pool.texts == [caption for row in (1, 3, 6) for caption in SCENES.items[row].captions[:2]]
    assert pool.owners.tolist() == [0, 0, 1, 1, 2, 2]
    assert (pool.text_queries, pool.image_queries.tolist()) == (4, [0, 1])  # of the first four photos
    assert not pool.all_are_queries
    assert pool.skipped == skipped


def test_further_photos_have_no_captions(photos: Path) -> None:
    (photos / "twice.jpg").write_bytes((photos / "1.jpg").read_bytes())  # of the source itself it stays
    source, same, further, again = open_source(photos), open_source(photos), Scenes(3, 0), Scenes(4, 0)
    (photos / "3.jpg").unlink()  # so it cannot be compared; encoding reports it
    whole = with_pool(source, [further, same, again])
    ids = [f"1-photos/{number}.jpg" for number in range(6)] + ["1-photos/twice.jpg"]
    ids += [f"2-{further.name}/{item.id}" for item in further.items]
    ids += ["3-photos/3.jpg", f"4-{again.name}/{again.items[3].id}"]
    assert [item.id for item in whole.items] == ids
    assert [len(item.captions) for item in whole.items] == [1] * 6 + [0] * 6
    assert whole.read(7) == further.read(0)


# ---- PoolVectors ----


def test_queries_come_first(model: LexLIP, photos: Path, tmp_path: Path) -> None:
    (photos / "1.txt").unlink()
    (photos / "2.txt").write_text("a dog\na cat\n")
    (photos / "3.jpg").write_text("no photo")
    bare = write_photos(tmp_path / "bare", 3)
    for text in bare.glob("*.txt"):
        text.unlink()
    source = Concat([open_source(photos), open_source(bare), Scenes(2, seed=1)])
    vectors = encode_pool(model, source, workers=0, queries=6)
    pool = vectors.pool
    first = [f"photos/{number}.jpg" for number in (0, 1, 2, 4, 5)]
    assert pool.image_ids[:8] == [*first, *(f"bare/{number}.jpg" for number in range(3))]
    assert len(pool.image_ids) == vectors.images.shape[0] == 10
    assert pool.text_ids[:4] == ["photos/0.jpg#0", "photos/2.jpg#0", "photos/2.jpg#1", "photos/4.jpg#0"]
    assert pool.texts[1:3] == ["a dog", "a cat"]
    assert len(pool.texts) == vectors.captions.shape[0] == 5 + 10
    assert pool.owners.tolist() == [0, 2, 2, 3, 4] + [8] * 5 + [9] * 5
    assert (pool.text_queries, pool.image_queries.tolist()) == (5, [0, 2, 3, 4])
    assert [skip.id for skip in pool.skipped] == ["photos/3.jpg"]
    assert pool.relevant_images[1:4] == [{"photos/2.jpg"}, {"photos/2.jpg"}, {"photos/4.jpg"}]
    assert pool.relevant_texts[:2] == [{"photos/0.jpg#0"}, {"photos/2.jpg#0", "photos/2.jpg#1"}]
    size = model.config.image.size
    expected = model.encode_image([open_source(photos).image(number, size) for number in (0, 1, 2, 4, 5)])
    np.testing.assert_allclose(vectors.images[:5].toarray(), expected.toarray(), rtol=1e-4, atol=1e-5)
    expected = model.encode_text(pool.texts)
    np.testing.assert_allclose(vectors.captions.toarray(), expected.toarray(), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(vectors.query_images.toarray(), vectors.images[[0, 2, 3, 4]].toarray())
    np.testing.assert_array_equal(
        vectors.query_captions().toarray(), as_queries(model, pool.texts[:5], vectors.captions[:5]).toarray()
    )


@pytest.mark.parametrize("encoder", ["network", "words"])
@pytest.mark.parametrize("most", [None, 2])
def test_queries_are_those_of_a_search(tmp_path: Path, most: int | None, encoder: QueryEncoder) -> None:
    model = tiny_model()
    width = len(model.vocabulary)
    rng = np.random.default_rng(0)
    model.keywords = unit_length(csr_matrix(rng.random((width, width)) * (rng.random((width, width)) < 0.2)))
    model.save(tmp_path)
    model = LexLIP.from_pretrained(tmp_path)
    queries, texts = TextQueries(tmp_path, encoder), [*CAPTIONS, "dog", "a dog", "brown dog", "zebra", ""]
    found = as_queries(model, texts, model.encode_text(texts, encoder), most).toarray()
    for text, row in zip(texts, found, strict=True):
        ours = queries.encode_query(Query(text, text), most).toarray()[0]
        np.testing.assert_allclose(row, ours, rtol=1e-3 if encoder == "words" else 0.2, atol=0.1)


def test_queries_of_a_dense_model_are_its_vectors() -> None:
    model = tiny_dense()
    vectors = model.encode_text(CAPTIONS)
    assert as_queries(model, CAPTIONS, vectors) is vectors


def test_captions_of_photos_that_cannot_be_read_are_not_queries(model: LexLIP, photos: Path) -> None:
    for photo in photos.glob("*.jpg"):
        photo.write_bytes(b"")
    further = Concat([open_source(photos), Scenes(2, seed=0)])
    with pytest.raises(DataError, match=r"no photo of .*photos.* has a caption: give photos with captions"):
        encode_pool(model, further, workers=0, queries=6)
    with pytest.raises(DataError, match="photos that can be read has a caption: give photos with captions"):
        encode_pool(model, open_source(photos), workers=0)


def test_captions_by_the_query_encoder_of_words(model: LexLIP) -> None:
    vectors = encode_pool(model, SCENES, "words", workers=0)
    expected = model.encode_text(vectors.pool.texts, "words")
    np.testing.assert_allclose(vectors.captions.toarray(), expected.toarray(), rtol=1e-5)
    with pytest.raises(ModelError, match="the dense model 'cls' has no words: use --query-encoder network"):
        encode_pool(tiny_dense(), SCENES, "words", workers=0)


def test_other_vectors_are_of_what_is_no_query() -> None:
    vectors = make_pool()
    np.testing.assert_array_equal(vectors.other_images.toarray(), vectors.images[10:].toarray())
    np.testing.assert_array_equal(vectors.other_captions.toarray(), vectors.captions[30:].toarray())
    without = replace(vectors.pool, owners=vectors.pool.owners + 2)  # the first two photos have no caption
    rows = [0, 1, *range(12, 40)]
    np.testing.assert_array_equal(
        replace(vectors, pool=without).other_images.toarray(), vectors.images[rows].toarray()
    )


def test_without_others_all_are_taken() -> None:
    vectors = make_pool(photos=10)
    np.testing.assert_array_equal(vectors.other_images.toarray(), vectors.images.toarray())
    np.testing.assert_array_equal(vectors.other_captions.toarray(), vectors.captions.toarray())


# ---- PoolTokens ----


def test_photos_as_a_cross_encoder_takes_them(photos: Path) -> None:
    (photos / "2.jpg").write_bytes(b"no photo")
    ce: Any = tiny_stage("ce")
    tokens = embed_pool(ce, open_source(photos), workers=0, indices=[1, 2, 4])
    assert tokens.pool.image_ids == ["1.jpg", "4.jpg"]
    assert [skip.id for skip in tokens.pool.skipped] == ["2.jpg"]
    assert tokens.pool.all_are_queries
    source, config = open_source(photos), ce.config.image
    pixels = torch.stack([to_pixels(source.image(row, config.size), config) for row in (1, 4)])
    torch.testing.assert_close(tokens.photos, ce.embed_photos(pixels))
    assert tokens.photos.dtype == torch.float16
    with pytest.raises(DataError, match=r"no photo .* can be read \(1 tried; 2.jpg: not an image\)"):
        embed_pool(ce, source, workers=0, indices=[2])
