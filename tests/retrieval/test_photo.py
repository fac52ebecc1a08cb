"""A photo as plain values, and the words that come with it."""

import json

from lexlip.retrieval.photo import Photo
from lexlip.retrieval.text_lines import TextLine

LINE = TextLine("Exit 12", (0, 0, 1, 0, 1, 1, 0, 1))


def test_what_people_want_to_know_is_plain_values() -> None:
    photo = Photo("a/b.jpg", "/p/a/b.jpg", "/p/a/b.jpg", width=3, height=2, text=(LINE,), place=(48.1, 11.6))
    known = json.loads(json.dumps(photo.to_dict()))
    assert known == photo.to_dict()
    assert (known["id"], known["path"], known["width"], known["height"]) == ("a/b.jpg", "/p/a/b.jpg", 3, 2)
    assert (known["latitude"], known["longitude"]) == (48.1, 11.6)
    assert known["text"] == ["Exit 12"]
    assert Photo("a", "a", "a").to_dict()["latitude"] is None


def test_all_words_that_come_with_it_are_given() -> None:
    photo = Photo("italy/b_7.jpg", "", "", captions=("Two dogs",), keywords=("snow",), text=(LINE,))
    words = {field: {word for text in texts for word in text} for field, texts in photo.given.items()}
    assert words == {
        "name": {"b", "7", "jpg"},
        "folder": {"italy"},
        "caption": {"two", "dogs", "snow"},
        "text": {"exit", "12"},
    }


def test_its_version_changes_with_its_bytes() -> None:
    assert Photo("a", "a", "a", digest="0" * 64).version == "0" * 16
    assert Photo("a", "a", "a").version == ""
