import unicodedata

import pytest

from lexlip.words.plain_text import (
    composed,
    counted,
    decomposed,
    forms_together,
    readable,
    spelled,
    whole,
    words_after,
    words_in,
)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("photos/2014/déjà 日.jpg", "photos/2014/déjà 日.jpg"),
        ("a\x1b[31m\nb\x9b\x7f", r"a\x1b[31m\nb\x9b\x7f"),
        ("gpj.\u202eexe\u2028\ud800", r"gpj.\u202eexe\u2028\ud800"),
        ("at 5.00\u202fPM 👩\u200d🚀", "at 5.00\u202fPM 👩\u200d🚀"),
    ],
)
def test_what_is_not_to_be_seen_stands_as_an_escape(text: str, seen: str) -> None:
    assert readable(text) == seen


def test_halves_of_characters_become_question_marks() -> None:
    assert whole("a \ud83d dog, é 👩") == "a ? dog, é 👩"


def test_numbers_of_things() -> None:
    assert [counted(number, "photo") for number in (0, 1, 2)] == ["0 photos", "1 photo", "2 photos"]


def test_words_have_their_marks() -> None:
    text = "कुत्ता, cafe\u0301 ❤\ufe0fdog שָׁלוֹם สวัสดี می\u200cخواهم \u0301a_b"
    words = ["कुत्ता", "cafe\u0301", "dog", "שָׁלוֹם", "สวัสดี", "می\u200cخواهم", "a", "b"]
    assert words_in(text) == words
    assert words_in(text, letters=r"\w")[-1] == "a_b"


def test_names_are_composed() -> None:
    assert composed(unicodedata.normalize("NFD", "Été/Zürich.jpg")) == "Été/Zürich.jpg"
    assert composed("plain") == "plain"
    assert decomposed("Été/1.jpg") == "E\u0301te\u0301/1.jpg"
    assert decomposed("plain") == "plain"


@pytest.mark.parametrize(
    ("words", "groups"),
    [
        ([], []),
        (["dog"], [["dog"]]),
        (
            ["sitting", "sidewalk", "sits", "dogs", "sit", "dog"],
            [["sitting", "sits", "sit"], ["sidewalk"], ["dogs", "dog"]],
        ),
        (["man", "men", "woman", "blue", "bluer"], [["man"], ["men"], ["woman"], ["blue"], ["bluer"]]),
    ],
)
def test_forms_of_a_word_stand_where_the_first_is(words: list[str], groups: list[list[str]]) -> None:
    assert forms_together(words) == groups


def test_no_word_is_lost() -> None:
    words = ["playing", "player", "plays", "skateboard", "skateboarder", "grass", "grassy", "öl", "", "42"]
    assert sorted(word for group in forms_together(words) for word in group) == sorted(words)


def test_what_is_behind_the_last_token() -> None:
    assert words_after("two dogs, in the snow", [(0, 0), (0, 3), (4, 8), (0, 0)]) == "dogs, in the snow"
    assert words_after("two dogs in", [(0, 3), (4, 8)]) == "in"
    assert words_after("two dogs", [(0, 3), (4, 6)]) == "dogs"  # of which one piece was read
    assert words_after("two dogs", [(0, 3), (4, 8)]) == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("two dogs, é", "two dogs, é"),
        ("ＤＯＧ！ （２）", "DOG! (2)"),
        ("犬と雪、カメラ", "犬と雪、カメラ"),
        ("beach🌊🏄🏽\u200d♀\ufe0f", "beach water wave surfer"),
        ("🐶", "dog"),
        ("❤\ufe0f and ★", "heart and star"),
        ("⛄^2 -🐱", "snowman^2 -cat"),
        ("🌊", "water wave"),
        ("-🌊 +☀\ufe0f 🌊^2", "-wave +sun wave^2"),
        ("©2019 5° ①", "©2019 5° ①"),
        ("🇫🇷", "🇫🇷"),
        (" été ", " été "),
        ("Anna’s “dog” isn’t", "Anna's “dog” isn't"),
    ],
)
def test_emoji_and_full_width_letters_are_spelled(text: str, words: str) -> None:
    assert spelled(text) == words
