from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from lexlip.bench.tables.first_stages import TableSettings
from lexlip.bench.tables.systems import bm25
from lexlip.data import Scenes, Skipped, open_source
from lexlip.errors import DataError
from lexlip.indexing.bm25 import NO_CAPTION
from lexlip.measure.bm25_recall import draw, draw_documents, evaluate_bm25
from lexlip.measure.pool import CaptionedPool
from tests.conftest import write_photos
from tests.measure.pools import make_pool
from tests.reference.ranking import naive_recall

SCENES = Scenes(30, seed=1)


@pytest.mark.parametrize("seed", [0, 1])
def test_recalls_are_those_of_table_2(seed: int) -> None:
    with ExitStack() as stack:
        row, _ = bm25(stack, CaptionedPool.of(SCENES), TableSettings(seed=seed))
    report = evaluate_bm25(SCENES, seed)
    assert (report.t2i, report.i2t) == (row.t2i, row.i2t)
    assert (report.images, report.captions) == (row.photos, 4 * 30) == (30, 120)


def test_what_is_drawn() -> None:
    pool = make_pool().pool
    t2i, i2t = draw(pool, np.random.default_rng(0))
    text_of = dict(zip(pool.text_ids, pool.texts, strict=True))
    owner_of = {id: pool.image_ids[owner] for id, owner in zip(pool.text_ids, pool.owners, strict=True)}
    assert len(t2i.ids) == len(set(t2i.ids)) == 20  # photos with captions
    for id, document in zip(t2i.ids, t2i.documents, strict=True):
        assert document in {text for name, text in text_of.items() if owner_of[name] == id}
    assert t2i.queries == [text_of[id] for id in t2i.query_ids]
    assert t2i.relevant == [{owner_of[id]} for id in t2i.query_ids]
    assert len(t2i.queries) == 10 * 2  # of the photos that are queries
    assert i2t.documents == [text_of[id] for id in i2t.ids]
    assert len(i2t.ids) == 20 * 2
    assert i2t.query_ids == [f"{photo}.jpg" for photo in range(10)]
    document_of = dict(zip(t2i.ids, t2i.documents, strict=True))
    assert i2t.queries == [document_of[id] for id in i2t.query_ids]
    for id, right in zip(i2t.query_ids, i2t.relevant, strict=True):
        assert right == {name for name in i2t.ids if owner_of[name] == id}


def test_the_other_captions_of_a_pool() -> None:
    """As vectors, in both directions; all photos stay."""
    vectors = make_pool()
    pool = vectors.pool
    drawn = draw_documents(pool, np.random.default_rng(0))
    t2i, i2t = draw(pool, np.random.default_rng(0))
    kept = vectors.part(drawn.others)
    assert kept.pool.text_ids == i2t.ids == [pool.text_ids[row] for row in drawn.others]
    assert kept.pool.texts == i2t.documents
    assert kept.pool.text_ids[: kept.pool.text_queries] == t2i.query_ids
    assert (kept.pool.relevant_images, kept.pool.relevant_texts) == (t2i.relevant, i2t.relevant)
    assert kept.pool.image_ids == pool.image_ids
    assert (kept.captions.toarray() == vectors.captions.toarray()[drawn.others]).all()
    assert kept.query_captions().shape[0] == len(t2i.queries)


def test_rankings() -> None:
    report = evaluate_bm25(SCENES, depth=25)
    t2i = report.rankings["t2i"]
    assert len(t2i.queries) == len(t2i.found) == len(t2i.scores) == 120
    assert max(map(len, t2i.found)) == 25
    assert all(list(row) == sorted(row, reverse=True) for row in t2i.scores)
    for k in (1, 5, 10):
        assert report.t2i[f"R@{k}"] == naive_recall(t2i.found, t2i.relevant, k)


def test_photos_without_captions_are_skipped(tmp_path: Path) -> None:
    twice = write_photos(tmp_path / "twice", 3)
    for text in twice.glob("*.txt"):
        text.write_text(text.read_text() * 2)
    (twice / "1.txt").unlink()
    report = evaluate_bm25(open_source(twice))
    assert (report.images, report.captions) == (2, 2)
    assert report.skipped == [Skipped("1.jpg", NO_CAPTION)]
    assert (report.terms_image, report.terms_text, report.words_at_10) == (None, None, None)


def test_without_a_second_caption() -> None:
    with pytest.raises(DataError, match="no photo has a second caption to search with"):
        draw(make_pool(captions=1).pool, np.random.default_rng(0))
