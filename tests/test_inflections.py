import pytest

from lexlip.inflections import forms_together


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
