from pathlib import Path

import pytest

from lexlip.bench.tables.query_pool import make_query_pool
from lexlip.data import Scenes, open_source
from lexlip.errors import DataError

SCENES = Scenes(10, seed=0)
IDS = [item.id for item in SCENES.items]


def test_all_are_queries() -> None:
    pool = make_query_pool(SCENES)
    assert [item.id for item in pool.source.items] == IDS
    assert pool.queries == 10


def test_some_are_queries_among_all() -> None:
    pool = make_query_pool(SCENES, queries=3, captions=2)
    assert pool.queries == 3
    ids = [item.id for item in pool.source.items]
    assert ids[:3] == [IDS[0], IDS[3], IDS[6]]  # evenly spread
    assert sorted(ids) == sorted(IDS)
    assert {len(item.captions) for item in pool.source.items} == {2}


def test_captions_of_a_photo_that_is_a_query() -> None:
    assert make_query_pool(SCENES, queries=3, captions=2).captions_per_photo == 2
    assert make_query_pool(SCENES, [Scenes(4, seed=1)]).captions_per_photo == 5


def test_some_are_queries_among_themselves() -> None:
    pool = make_query_pool(SCENES, queries=3, queries_only=True)
    assert [item.id for item in pool.source.items] == [IDS[0], IDS[3], IDS[6]]
    assert pool.queries == 3


def test_further_photos() -> None:
    pool = make_query_pool(SCENES, [Scenes(4, seed=1)], queries=3, captions=1)
    assert (len(pool.source), pool.queries) == (14, 3)
    assert [item.captions for item in pool.source.items[:3]] == [
        SCENES.items[row].captions[:1] for row in (0, 3, 6)
    ]
    assert pool.source.items[13].captions == Scenes(4, seed=1).items[3].captions[:1]


def test_only_photos_with_captions_are_queries(photos: Path) -> None:
    (photos / "0.txt").unlink()
    pool = make_query_pool(open_source(photos), queries=1)
    assert pool.source.items[0].captions
    for text in photos.glob("*.txt"):
        text.unlink()
    with pytest.raises(DataError, match="has a caption: give photos with captions"):
        make_query_pool(open_source(photos))
