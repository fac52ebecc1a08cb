import re

import numpy as np
import pytest

from lexlip.training.composing import ANTONYMS, compose
from lexlip.vocabulary import FUNCTION_WORDS
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
