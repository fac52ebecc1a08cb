"""Negations that leave words out, and those that are text."""

import pytest

from lexlip.queries.negations import forms, read_negations


@pytest.mark.parametrize(
    ("text", "kept", "negations"),
    [
        ("no dog on the beach", "on the beach", {"no dog": ("dog",)}),
        ("dog without snow", "dog", {"without snow": ("snow",)}),
        ("Dogs but NO Snow.", "Dogs .", {"but NO Snow": ("snow",)}),
        ("street without any cars", "street", {"without any cars": ("cars",)}),
        ("dogs but not cats", "dogs", {"but not cats": ("cats",)}),
        ("there are no people on the beach", "on the beach", {"there are no people": ("people",)}),
        ("beach, not any dogs", "beach", {"not any dogs": ("dogs",)}),
        ("no dogs or cats on grass", "on grass", {"no dogs or cats": ("dogs", "cats")}),
        ("sea with no boats, a bird or the sun", "sea", {"with no boats, a bird or the sun": ()}),
        ("sea with no boats, birds, or people", "sea", {"with no boats, birds, or people": ()}),
        ("beach without people and dogs", "beach", {"without people and dogs": ("people", "dogs")}),
        ("no dog and a cat", "and a cat", {"no dog": ("dog",)}),
        ("snow, no dog, no cat", "snow", {"no dog": ("dog",), "no cat": ("cat",)}),
        ("man without a hat and with no beard", "man", {}),
        ("no dog", "", {"no dog": ("dog",)}),
        ("there is no dog", "", {"there is no dog": ("dog",)}),
        ("a house with no ceiling", "a house", {"with no ceiling": ("ceiling",)}),
    ],
)
def test_plain_negations_leave_words_out(text: str, kept: str, negations: dict[str, tuple[str, ...]]) -> None:
    sentence, found = read_negations(text)
    assert sentence == kept
    assert found
    for phrase, words in negations.items():
        assert phrase in found
        assert not words or found[phrase] == words
    assert all(phrase in text for phrase in found)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "two  dogs in snow",
        "a no parking sign",
        "no parking",
        "no dogs sign",
        "a sign for no dogs",
        "no smoking",
        "no entry",
        "no U-turn",
        "no left turn",
        "no one on the beach",
        "no longer a boat",
        "No. 5 bus",
        "no man's land",
        "a no-dog beach",
        "a man with no shirt is climbing a rock ledge .",
        "Man without shirt climbing rock face .",
        "a man walking down the street with no shirt pulling luggage",
        "railroad tracks with no trains on them",
        "a large train yard with no trains",
        "a large train yard with no running trains",
        "a child with no toys on",
        "eating pizza without using his hands",
        "dog not in snow",
        "nothing but snow",
        "a casino without",
    ],
)
def test_other_negations_are_text(text: str) -> None:
    assert read_negations(text) == (text, {})


def test_in_quotes_a_negation_is_text() -> None:
    assert read_negations('"no dog" on the beach') == ("no dog on the beach", {})
    assert read_negations("“no dog” on snow, no cat") == ("no dog on snow", {"no cat": ("cat",)})
    assert read_negations('the "big" dog') == ('the "big" dog', {})
    assert read_negations('5" pipe without snow') == ('5" pipe', {"without snow": ("snow",)})


@pytest.mark.parametrize(
    ("singular", "plural"),
    [
        ("dog", "dogs"),
        ("person", "people"),
        ("child", "children"),
        ("bus", "buses"),
        ("glass", "glasses"),
        ("beach", "beaches"),
        ("box", "boxes"),
        ("city", "cities"),
        ("boy", "boys"),
        ("house", "houses"),
        ("pie", "pies"),
        ("horse", "horses"),
    ],
)
def test_both_numbers_of_a_noun(singular: str, plural: str) -> None:
    assert plural in forms(singular)
    assert singular in forms(plural)
