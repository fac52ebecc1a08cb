import re

import numpy as np
import pytest

from lexlip.function_words import FUNCTION_WORDS, likely_language
from lexlip.training.hard_negatives import ANTONYMS, compose
from tests.tiny import CAPTIONS


def changes(caption: str, others: list[str], seed: int = 0) -> tuple[list[str], list[str]]:
    composed = compose(caption, others, np.random.default_rng(seed))
    before, after = (re.findall(r"\w+", text) for text in (caption, composed))
    assert len(before) == len(after)
    pairs = [(b, a) for b, a in zip(before, after, strict=True) if a != b]
    return [b for b, _ in pairs], [a for _, a in pairs]


@pytest.mark.parametrize("seed", range(20))
def test_half_of_the_content_words_change_and_no_other(seed: int) -> None:
    for caption in CAPTIONS:
        others = [other for other in CAPTIONS if other != caption]
        was, now = changes(caption, others, seed)
        content = [word for word in re.findall(r"\w+", caption) if word not in FUNCTION_WORDS]
        assert len(was) == max(1, round(len(content) / 2))
        assert set(was) <= set(content)
        given = {word for other in others for word in re.findall(r"\w+", other)}
        for before, after in zip(was, now, strict=True):
            assert after == ANTONYMS[before] if before in ANTONYMS else after in given - FUNCTION_WORDS


def test_words_that_have_one_become_their_antonym() -> None:
    assert compose("tall", ["a dog"], np.random.default_rng(0)) == "short"
    assert all(ANTONYMS[other] in ANTONYMS for other in ANTONYMS.values())


def test_what_has_nothing_to_change_stays() -> None:
    assert compose("two dogs", ["two dogs"], np.random.default_rng(0)) in ("two dogs",)
    assert compose("", ["a dog"], np.random.default_rng(0)) == ""


def test_words_of_other_languages_come_from_captions_in_the_same_language() -> None:
    others = [
        "a dog in the snow",
        "ein Hund springt in das Wasser",
        "un chien dans la neige",
        "pes skáče do vody",
    ]
    german, french = "eine Frau und ein Kind", "une femme avec un long manteau"
    for seed in range(20):
        _, now = changes(german, others, seed)
        assert now
        assert set(now) <= {"hund", "springt", "wasser"}
        _, now = changes(french, others, seed)
        assert set(now) <= {"chien", "neige"}  # "long" has an antonym in English alone
    _, now = changes(german, others[:1])
    assert set(now) <= {"dog", "snow"}  # no other caption is German


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Two dogs are playing in the snow.", "en"),
        ("Zwei Hunde spielen im Schnee mit einem Ball.", "de"),
        ("Deux chiens jouent dans la neige.", "fr"),
        ("Dva psi si hrají ve sněhu.", "cs"),
        ("", "en"),
    ],
)
def test_likely_language(text: str, language: str) -> None:
    assert likely_language(text) == language
