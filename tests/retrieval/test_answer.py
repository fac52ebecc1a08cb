import json
import re
from dataclasses import replace

import pytest

from lexlip.errors import DataError
from lexlip.retrieval.answer import Answer, Hit, id_of, key_of


def test_an_answer_as_plain_values() -> None:
    about = {
        "width": 640,
        "height": 480,
        "taken": "2019-07-01T12:30:00",
        "duplicates": ["c.jpg"],
        "version": "1f",
    }
    first = Hit(1, "a.jpg", "/photos/a.jpg", 0.5, {"dog": 0.5}, None, **about)  # type: ignore[arg-type]
    hits = [first, Hit(2, "b.jpg", "b", 0.25, {}, 0.75)]
    answer = Answer(
        "a dog", {"dog": 1.0}, hits, {"encode": 1.0, "search": 2.0}, ["quokka"], ["cat"], "10.a.b"
    )
    plain = {
        "query": "a dog",
        "terms": {"dog": 1.0},
        "hits": [
            {
                "rank": 1,
                "id": "a.jpg",
                "path": "/photos/a.jpg",
                "score": 0.5,
                "words": {"dog": 0.5},
                "probability": None,
                "width": 640,
                "height": 480,
                "taken": "2019-07-01T12:30:00",
                "duplicates": ["c.jpg"],
                "version": "1f",
                "key": "YS5qcGc",
            },
            {
                "rank": 2,
                "id": "b.jpg",
                "path": "b",
                "score": 0.25,
                "words": {},
                "probability": 0.75,
                "width": 0,
                "height": 0,
                "taken": None,
                "duplicates": [],
                "version": "",
                "key": "Yi5qcGc",
            },
        ],
        "ms": {"encode": 1.0, "search": 2.0},
        "unknown": ["quokka"],
        "without": ["cat"],
        "cursor": "10.a.b",
        "cut": None,
        "suggestions": [],
        "unread": "",
        "well": None,
        "negations": {},
        "meant": {},
        "foreign": False,
        "unmet": "",
        "above_well": 2,
        "above": 2,
        "below": [],
    }
    assert answer.to_dict() == plain
    assert list(answer.to_dict()) == list(plain)
    assert json.loads(json.dumps(answer.to_dict())) == plain


@pytest.mark.parametrize(
    "id", ["a.jpg", "Fotos/Ärger & Co.jpg", "日本/🐈.jpg", 'a\nb"<img>.jpg', "x" * 300, ""]
)
def test_a_key_stands_for_an_id_in_an_address(id: str) -> None:
    key = key_of(id)
    assert re.fullmatch(r"[\w-]*", key, re.ASCII)
    assert id_of(key) == id


@pytest.mark.parametrize("key", ["a", "YS5qcGc=", "YS5qcGd", "../etc", "Yi5 qcGc", "ä", "/w", "_w"])
def test_what_is_no_key(key: str) -> None:
    with pytest.raises(DataError, match="is not the key of a photo"):
        id_of(key)


def test_what_hits_below_the_cut_share() -> None:
    hits = [
        Hit(1, "a", "a", 0.8, {"dog": 0.8}),
        Hit(2, "b", "b", 0.4, {"two": 0.3, "dog": 0.1}),
        Hit(3, "c", "c", 0.3, {"snow": 0.2, "two": 0.1}),
    ]
    answer = Answer("two dogs", {}, hits, {}, [], cut=0.5)
    assert (answer.above, answer.below(), answer.below(1)) == (1, ["two", "snow", "dog"], ["two"])
    assert answer.above_well == 3  # nothing is known about it
    assert replace(answer, well=0.4).above_well == replace(answer, well=0.4).to_dict()["above_well"] == 2
    assert (replace(answer, cut=None).above, replace(answer, cut=None).below()) == (3, [])
    assert (replace(answer, cut=0.3).above, replace(answer, cut=0.3).below()) == (3, [])
