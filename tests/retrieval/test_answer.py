import json
import re
from dataclasses import replace

import pytest

from lexlip.errors import DataError
from lexlip.retrieval.answer import Answer, Hit, id_of, key_of

KEYS = """
    query terms hits ms unknown without cursor cut suggestions unread well negations meant foreign unmet
    language other_languages install shown_in translations
    above_well above below by_file_time
""".split()
OF_HITS = """
    rank id path score words probability width height taken duplicates version
    date dated latitude longitude key
""".split()


def test_an_answer_as_plain_values() -> None:
    first = Hit(1, "a.jpg", "/a.jpg", 0.5, {"dog": 0.5}, None, 640, 480, "2019-07-01T12:30:00", ["c"], "1f")
    first = replace(first, date=first.taken, dated="camera", latitude=45.76, longitude=4.84)
    hits = [first, Hit(2, "b.jpg", "b", 0.25, {}, 0.75, date="2020-01-01T00:00:00", dated="file")]
    ms = {"encode": 1.0, "search": 2.0}
    plain = Answer("a dog", {"dog": 1.0}, hits, ms, ["quokka"], ["cat"], "10.a.b").to_dict()
    one, two = plain["hits"]
    assert (list(plain), list(one), list(two)) == (KEYS, OF_HITS, OF_HITS)
    assert list(one.values())[:5] == [1, "a.jpg", "/a.jpg", 0.5, {"dog": 0.5}]
    about = [None, 640, 480, "2019-07-01T12:30:00", ["c"], "1f"]
    assert list(one.values())[5:] == [*about, "2019-07-01T12:30:00", "camera", 45.76, 4.84, "YS5qcGc"]
    about = [0.75, 0, 0, None, [], ""]
    assert list(two.values())[5:] == [*about, "2020-01-01T00:00:00", "file", None, None, "Yi5qcGc"]
    asked = ["a dog", {"dog": 1.0}, [one, two], ms, ["quokka"], ["cat"], "10.a.b"]
    assert list(plain.values()) == [
        *asked,
        None,
        [],
        "",
        None,
        {},
        {},
        False,
        "",
        "",
        [],
        "",
        "",
        {},
        2,
        2,
        [],
        1,
    ]
    assert json.loads(json.dumps(plain)) == plain


def test_words_are_shown_in_another_language() -> None:
    answer = Answer("rennen", {"runs": 0.5, "dog": 0.7, "running": 0.4}, [], {}, [], translations={})
    assert (answer.shown("runs"), list(answer.as_shown(answer.terms))) == ("runs", ["runs", "dog", "running"])
    german = replace(answer, translations={"runs": "rennen", "running": "rennen"})
    assert (german.shown("runs"), german.shown("dog")) == ("rennen", "dog")
    assert list(german.as_shown(answer.terms).items()) == [("rennen", 0.9), ("dog", 0.7)]


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


def test_what_is_said_of_a_foreign_sentence() -> None:
    answer = Answer("ein Hund", {}, [], {}, ["Hund"], foreign=True)
    assert answer.not_english == "this does not look like English, which the model knows: say it in English"
    assert replace(answer, install="pip install it").not_english == f"{answer.not_english}, or pip install it"
    named = Hit(1, "a", "a", 1.0, {"name:hund": 1.0})
    assert replace(answer, hits=[named]).not_english == replace(answer, foreign=False).not_english == ""
