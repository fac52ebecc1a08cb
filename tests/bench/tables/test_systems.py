from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lexlip.errors import DataError
from lexlip.measure.pool import EncodedPool
from lexlip.bench.tables.systems_bm25 import bm25
from lexlip.bench.tables.systems import Settings, System
from tests.measure.pools import make_pool


def build(pool: EncodedPool, settings: Settings | None = None) -> System:
    with ExitStack() as stack:
        system = bm25(stack, pool, settings or Settings())
        assert system.timed.seconds(5) > 0
    return system


def with_texts(texts: list[str], owners: list[int], asking: int) -> EncodedPool:
    pool = make_pool(photos=4)
    names = [f"{owner}.jpg#{row}" for row, owner in enumerate(owners)]
    return replace(pool, texts=texts, text_ids=names, owners=np.array(owners), asking=asking)


def test_one_caption_finds_its_photo_by_the_other() -> None:
    """Whichever is drawn: both captions of 0 share a word, those of 1 none; 2 does not ask."""
    texts = ["red dog", "dog runs", "blue car", "fast train", "green dog", "green dog"]
    system = build(with_texts(texts, [0, 0, 1, 1, 2, 2], asking=4))
    assert (system.name, system.documents, system.items) == ("BM25", "captions", 3)
    assert system.timed.queries == 2
    assert system.t2i is not None
    assert system.i2t is not None
    assert (system.t2i["R@5"], system.i2t["R@5"]) == (50, 50)
    assert system.item_bytes == 3 * 2  # each caption has two words


def test_only_captions_of_the_queries_ask_and_each_but_one_of_a_photo() -> None:
    pool = make_pool()
    system = build(pool)
    assert system.items == 20  # ten that ask, and every third of thirty others
    assert system.timed.queries == 10 * 2
    assert system.t2i is not None
    assert system.t2i["R@10"] > 50
    assert build(pool).t2i == system.t2i
    assert {build(pool, Settings(seed=seed)).t2i["R@1"] for seed in range(5)} != {system.t2i["R@1"]}  # type: ignore[index]


def test_sizes() -> None:
    system = build(make_pool())
    assert 0 < system.megabytes_without_ids < system.megabytes < 0.1
    assert build(make_pool(), Settings(synthetic=1000)).items == system.items


def test_a_photo_with_one_caption_is_found_but_does_not_ask() -> None:
    system = build(with_texts(["dog", "red dog", "a dog"], [0, 1, 1], asking=3))
    assert (system.items, system.timed.queries) == (2, 1)
    with pytest.raises(DataError, match="no photo has a second caption to ask with"):
        build(with_texts(["dog", "cat"], [0, 1], asking=2))


def test_nothing_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    build(make_pool())
    assert list(tmp_path.iterdir()) == []
