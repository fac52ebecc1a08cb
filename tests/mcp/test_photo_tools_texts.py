from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lexlip.mcp.photo_tools import quoted, text_of_answer, text_of_photo, text_of_reasons, text_of_status
from lexlip.retrieval.answer import Answer, Hit

DATE = "2019-07-01T12:30:00"
HIT = Hit(4, "a\nb.jpg", "/x/a\nb.jpg", 0.5, {"dog": 0.3, "snow": 0.2}, date=DATE, dated="camera")


def test_an_answer() -> None:
    terms = dict(zip("abcdefghijkl", np.linspace(1, 0.45, 12).tolist(), strict=True))
    answer = Answer("x", terms, [HIT], {}, ["zzz"], cursor="1.a.b", cut=0.6, suggestions=["ski", "red"])
    assert text_of_answer(answer).splitlines() == [
        "query words: a 1.00 b 0.95 c 0.90 d 0.85 e 0.80 f 0.75 g 0.70 h 0.65 i 0.60 j 0.55 … 2 more",
        'not in the vocabulary: "zzz"',
        '4. 0.500 id "a\\nb.jpg", taken 2019-07-01T12:30:00, file "/x/a\\nb.jpg"',
        "   dog 0.300 snow 0.200",
        "photos with a score below 0.600 are unlikely to fit",
        "words to add or exclude: ski, red",
        'there are more: the same call with cursor "1.a.b"',
    ]


def test_where_and_when() -> None:
    by_file = replace(HIT, dated="file", latitude=45.76, longitude=-4.8357891)
    said = 'id "a\\nb.jpg", its file is of 2019-07-01T12:30:00, at 45.76000, -4.83579, file '
    assert said in text_of_answer(Answer("x", {}, [by_file], {}, []))


def test_hits_that_fit_in_part() -> None:
    other = replace(HIT, score=0.4)
    text = text_of_answer(Answer("x", {}, [HIT, other], {}, [], cut=0.3, well=0.45))
    assert text.splitlines()[-1] == "photos with a score below 0.450 fit in part only"
    assert "in part" not in text_of_answer(Answer("x", {}, [HIT, other], {}, [], cut=0.3, well=0.4))


def test_an_answer_of_nothing() -> None:
    text = text_of_answer(Answer("x", {}, [], {}, [], cut=0.6))
    assert text == "no photo fits: try other words, or fewer conditions"
    text = text_of_answer(Answer("x", {}, [], {}, [], unmet="no photo is in the folder a\nb"))
    assert text == '"no photo is in the folder a\\nb"'


def test_how_a_query_was_understood() -> None:
    answer = Answer(
        *("x", {"dog": 1.0}, [], {}, ["dgo"]),
        negations={"no snow": ("snow",), "no cats": ("cats", "cat")},
        meant={"dgo": ["dog", "dig"]},
        foreign=True,
    )
    assert text_of_answer(answer).splitlines()[2:-1] == [
        "this does not look like English, which the model knows: say it in English",
        'did you mean dog or dig by "dgo"?',
        '"no snow" leaves out snow; in quotation marks it is text',
        '"no cats" leaves out cats, cat; in quotation marks it is text',
    ]


def test_reasons() -> None:
    photo = {"id": "a.jpg", "path": "/x/a.jpg", "words": {"dog": 0.5}}
    rows = [{"word": "dog", "query": 0.6, "photo": 0.5, "product": 0.3}]
    assert text_of_reasons({**photo, "query": "dogs", "rows": rows, "score": 0.3}).splitlines()[2:] == [
        "dog: 0.600 * 0.500 = 0.300000",
        "score: 0.300000",
    ]
    assert text_of_reasons(photo) == 'photo "a.jpg", "/x/a.jpg"\nwords: dog 0.500'
    assert text_of_reasons({"words": {}, "unknown": ["zzz"]}) == 'words: none\nnot in the vocabulary: "zzz"'


def test_a_photo() -> None:
    known: dict[str, Any] = {
        **{"id": "a", "path": "/a", "width": 0, "height": 0, "taken": None, "camera": None},
        **{"latitude": None, "longitude": None, "date": None, "dated": "unknown"},
        **{"captions": [], "keywords": [], "text": [], "words": {}},
    }
    assert text_of_photo(known) == 'photo "a", "/a"'
    known |= {"width": 3, "height": 2, "taken": "2014", "captions": ["x\ny", "z"], "words": {"dog": 1.0}}
    assert text_of_photo(known).splitlines()[1:] == [
        "size: 3 x 2 pixels",
        'taken: "2014"',
        'captions: "x\\ny", "z"',
        "words: dog 1.000",
    ]
    known |= {"taken": None, "date": DATE, "dated": "file", "latitude": 45.5, "longitude": -9.0}
    assert text_of_photo(known).splitlines()[2:4] == [f"its file is of {DATE}", "place: 45.50000, -9.00000"]


def test_a_status() -> None:
    status = {
        **{"index": "/i", "documents": 5, "kind": "dense", "model": "m", "made": "now", "words": False},
        **{"first": "2014-01-01", "last": "2015-01-01", "dated": 2, "captioned": 1, "folders_in_all": 3},
        **{"folders": [{"folder": "a", "photos": 2}], "albums": ["two\nlines"]},
    }
    assert text_of_status(status).splitlines() == [
        '5 photos in "/i", made now with "m"',
        "it knows no words: sentences only, without words to add or exclude",
        "2 photos have a date, from 2014-01-01 to 2015-01-01",
        "1 photos have captions or keywords",
        'folders: "a" (2) and 2 more',
        'albums: "two\\nlines"',
    ]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a b", '"a b"'),
        ('"', '"\\""'),
        ("a\n\x1b[31m", '"a\\n\\u001b[31m"'),
        ("é‮", '"é\\u202e"'),
        ("x\u2028y", '"x\\u2028y"'),
    ],
)
def test_names_in_quotes(name: str, shown: str) -> None:
    assert quoted(name) == shown


def test_other_languages() -> None:
    boot = Answer("boot", {"boot": 1.0}, [], {}, [], other_languages=["de", "nl"])
    assert '"boot" is said in another language, too: language de or nl' in text_of_answer(boot).splitlines()
    german = Answer("ein Hund", {}, [], {}, ["Hund"], foreign=True, install="pip install it")
    assert "say it in English, or pip install it" in text_of_answer(german)
