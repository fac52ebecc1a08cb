import pytest

from lexlip.retrieval.text_lines import TextLine, store_lines, stored_lines

SQUARE = (0, 0, 1000, 0, 1000, 10, 0, 10)


@pytest.mark.parametrize("texts", [[], ["EXIT 12", "東京", 'a "quoted" \\ line']])
def test_lines_come_back(texts: list[str]) -> None:
    lines = tuple(TextLine(text, SQUARE) for text in texts)
    assert stored_lines(store_lines(lines)) == lines


@pytest.mark.parametrize(
    "stored",
    ["", "{}", "[1]", '[["a", 1, 2]]', '[["a", 0, 0, 1001, 0, 0, 0, 0, 0]]', "[[1, 0, 0, 0, 0, 0, 0, 0, 0]]"],
)
def test_other_things_are_refused(stored: str) -> None:
    with pytest.raises(ValueError, match=r"list of lines|JSON|Expecting"):
        stored_lines(stored)
