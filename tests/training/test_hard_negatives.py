import re

import numpy as np
import pytest
import torch

from lexlip.training.hard_negatives import ANTONYMS, compose, draw_other_captions, mix_tokens
from lexlip.words.function_words import FUNCTION_WORDS, likely_language
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


def others(captions: list[list[str]], hard: float, epoch: int) -> list[str]:
    drawn = [list(range(len(texts))) for texts in captions]
    return draw_other_captions(drawn, captions, hard, np.random.default_rng(epoch))


COUPLES = [[f"a {animal} in {place} snow"] for animal in ("dog", "cat", "bird") for place in ("deep", "thin")]


def test_hard_negatives_have_most_words_in_common() -> None:
    for epoch in range(10):
        found = others(COUPLES, 1.0, epoch)
        for (caption,), other in zip(COUPLES, found, strict=True):
            shared = set(caption.split()) & set(other.split())
            assert len(shared - {"a", "in"}) == 2  # snow, and the animal or the place
    easy = {tuple(others(COUPLES, 0.0, epoch)) for epoch in range(10)}
    assert len(easy) > 5


@pytest.mark.parametrize("hard", [0.0, 0.5, 1.0])
def test_captions_alone_do_not_tell_pairs(hard: float) -> None:
    """Each is a negative as often as it is a positive, long or short."""
    captions = [[text, text.split(" ", 3)[2]] for text in CAPTIONS]
    for epoch in range(10):
        assert sorted(others(captions, hard, epoch)) == sorted(text for texts in captions for text in texts)


def test_a_photo_with_most_of_the_captions_gets_others_twice() -> None:
    found = others([["a", "b", "c", "d"], ["e"]], 0.5, 0)
    assert found[:4] == ["e"] * 4
    assert found[4] in "abcd"


@pytest.mark.parametrize("hard", [0.0, 1.0])
def test_the_same_sentence_of_another_photo_is_no_negative(hard: float) -> None:
    captions = [["a dog", "a dog in snow"], ["A dog"], ["a dog in rain"], ["two cats"], ["A dog in snow"]]
    for epoch in range(20):
        found = others(captions, hard, epoch)
        assert not {"a dog", "A dog", "a dog in snow", "A dog in snow"} & {*found[:2]}
        assert found[2].lower() != "a dog"
        assert found[5].lower() != "a dog in snow"
    assert others([["a dog"], ["a dog"]], hard, 0) == ["a dog", "a dog"]  # there is nothing else


@torch.no_grad()
def test_composed_photos_have_half_of_the_tokens_of_others_in_their_places() -> None:
    states = torch.arange(4 * 10 * 3, dtype=torch.float32).view(4, 10, 3)
    mixed = mix_tokens(states)
    for row in range(4):
        kept = (mixed[row] == states[row]).all(dim=1)
        assert int(kept.sum()) == 5
        for place in torch.nonzero(~kept)[:, 0].tolist():
            others = [o for o in range(4) if torch.equal(mixed[row, place], states[o, place])]
            assert len(others) == 1
            assert others[0] != row


def test_tokens_of_no_patch_stay() -> None:
    states = torch.rand(4, 11, 3)
    kept = (mix_tokens(states, prefix=2) == states).all(dim=2)
    assert kept[:, :2].all()
    assert kept[:, 2:].sum(dim=1).tolist() == [5] * 4  # of nine, four are another photo's
