"""Cursors of pages; `PhotoSearch`'s tests have the pages themselves."""

import pytest

from lexlip.errors import DataError
from lexlip.search.cursors import Cursor, digest


def test_a_cursor_as_text() -> None:
    cursor = Cursor(20, digest("a state"), digest("a query", None, 0.5))
    assert Cursor.read(str(cursor)) == cursor


def test_digests_tell_values_apart() -> None:
    assert digest("a", None) == digest("a", None)
    assert len({digest(*parts) for parts in (("a",), ("a", None), ("a", 1), ("a", "1"), ("\ud800",))}) == 5


@pytest.mark.parametrize(
    "text", ["", "10", "10.x.y", f"-1.{'0' * 16}.{'0' * 16}", f"1.{'0' * 16}.{'0' * 17}"]
)
def test_what_is_no_cursor(text: str) -> None:
    with pytest.raises(DataError, match="is no cursor: give the one that the page before has"):
        Cursor.read(text)
