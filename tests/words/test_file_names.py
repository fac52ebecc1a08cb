import unicodedata
from itertools import islice

import pytest

from lexlip.words.file_names import Names, file_name, numbered


@pytest.mark.parametrize(
    ("photo", "name"),
    [
        ("/photos/größe 東京 🐕.jpg", "größe 東京 🐕.jpg"),
        ("/photos/two\nlines.jpg", "two_nlines.jpg"),
        ("/photos/\u202egpj.elif.jpg", "_u202egpj.elif.jpg"),
        ("/photos/some.tar/a\\b:c*.jpg", "a_b_c_.jpg"),
        ("/photos/CON.jpg", "_CON.jpg"),
        ("/photos/com1 .tar.jpg", "_com1 .tar.jpg"),
        ("/photos/console.jpg", "console.jpg"),
        ("/photos/ends. .", "ends"),
        ("/photos/..", "photo"),
        ("/photos/.jpg", ".jpg"),
    ],
)
def test_names_that_every_system_can_have(photo: str, name: str) -> None:
    assert file_name(photo) == name


def test_long_names_are_cut_before_their_ending() -> None:
    for letter in "a東":
        name = file_name(f"/photos/{letter * 80}{letter * 170}.jpeg")
        assert name.endswith(f"{letter}.jpeg")
        assert 195 < len(name.encode()) <= 200
    assert len(file_name(f"/photos/a.{'b' * 250}")) == 200


def test_numbers_stand_before_the_ending() -> None:
    assert list(islice(numbered("a.b.jpg"), 3)) == ["a.b.jpg", "a.b (2).jpg", "a.b (3).jpg"]
    assert list(islice(numbered("a"), 2)) == ["a", "a (2)"]


def test_no_two_names_are_the_same_on_any_system() -> None:
    names = Names("missing.txt")
    given = ["a/dog.jpg", "b/Dog.JPG", "c/dog.jpg", "d/dog (2).jpg", "e/Missing.txt", "f/a:b", "f/a?b"]
    taken = [names.take(photo) for photo in given]
    assert taken == [
        *("dog.jpg", "Dog (2).JPG", "dog (3).jpg", "dog (2) (2).jpg", "Missing (2).txt", "a_b", "a_b (2)")
    ]
    composed, decomposed = "e/\u00fc.jpg", "f/u\u0308.jpg"
    assert len({unicodedata.normalize("NFC", names.take(photo)) for photo in (composed, decomposed)}) == 2
