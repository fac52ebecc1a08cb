import pytest

from lexlip.bench.tables.quoted import quote

LINES = """
    one | 1 2.5  - 4
    two, k=3 | - -  3_ms 7
"""


def test_lines_of_several_settings() -> None:
    first, second, third = quote(("a", "b"), LINES, "here", "there")
    assert [str(line) for line in (first, second, third)] == [
        *("paper: one, here", "paper: one, there", "paper: two, k=3, there"),
    ]
    assert (first.figures, second.figures, third.figures) == (
        *({"a": 1, "b": 2.5}, {"b": 4}, {"a": "3 ms", "b": 7}),
    )
    assert second.to_dict() == {"model": "one", "setting": "there", "figures": {"b": 4.0}}


def test_lines_without_a_setting() -> None:
    [line] = quote(("a", "b"), "three | 1 2")
    assert (str(line), line.figures) == ("paper: three", {"a": 1, "b": 2})


def test_each_figure_has_a_key() -> None:
    with pytest.raises(AssertionError, match="one"):
        quote(("a", "b"), "one | 1 2 3")
