from pathlib import Path

import pytest

from lexlip.data import Scenes, open_source
from lexlip.errors import DataError
from lexlip.bench.tables.questions import make_questions

SCENES = Scenes(10, seed=0)
IDS = [item.id for item in SCENES.items]


def test_all_ask() -> None:
    questions = make_questions(SCENES)
    assert [item.id for item in questions.pool.items] == IDS
    assert questions.asking == 10


def test_some_ask_among_all() -> None:
    questions = make_questions(SCENES, pairs=3, captions=2)
    assert questions.asking == 3
    ids = [item.id for item in questions.pool.items]
    assert ids[:3] == [IDS[0], IDS[3], IDS[6]]  # evenly spread
    assert sorted(ids) == sorted(IDS)
    assert {len(item.captions) for item in questions.pool.items} == {2}


def test_some_ask_among_themselves() -> None:
    questions = make_questions(SCENES, pairs=3, alone=True)
    assert [item.id for item in questions.pool.items] == [IDS[0], IDS[3], IDS[6]]
    assert questions.asking == 3


def test_further_photos() -> None:
    questions = make_questions(SCENES, [Scenes(4, seed=1)], pairs=3, captions=1)
    assert (len(questions.pool), questions.asking) == (14, 3)
    assert [item.captions for item in questions.pool.items[:3]] == [
        SCENES.items[row].captions[:1] for row in (0, 3, 6)
    ]
    assert questions.pool.items[13].captions == Scenes(4, seed=1).items[3].captions[:1]


def test_only_photos_with_captions_are_chosen(photos: Path) -> None:
    (photos / "0.txt").unlink()
    questions = make_questions(open_source(photos), pairs=1)
    assert questions.pool.items[0].captions
    for text in photos.glob("*.txt"):
        text.unlink()
    with pytest.raises(DataError, match="has a caption: there is nothing to measure with"):
        make_questions(open_source(photos))
