from pathlib import Path

import pytest

from lexlip.errors import DataError, FixableError
from lexlip.retrieval.circle import Circle, circle_of, kilometres_of


@pytest.mark.parametrize(
    ("text", "kilometres"),
    [("20km", 20), ("500 m", 0.5), ("12mi", 19.312128), ("7", 7), (".5KM", 0.5), (None, 25), ("", 25)],
)
def test_a_distance(text: str | None, kilometres: float) -> None:
    assert kilometres_of(text) == pytest.approx(kilometres)


@pytest.mark.parametrize("text", ["0", "-3km", "far", "20 leagues", "1e3", "9" * 400, "nan", "20km 3"])
def test_what_is_no_distance(text: str) -> None:
    with pytest.raises(DataError, match="give a distance such as 20km, 500m or 12mi"):
        kilometres_of(text)


@pytest.mark.parametrize(
    "text",
    ["48.1,11.6", " 48.1 , 11.6 ", '"48.1, 11.6"', "48.1 11.6", "48.1° 11.6°", "48.1;11.6", "+48.1,+11.6"],
)
def test_coordinates(text: str) -> None:
    assert circle_of(text, "3km") == Circle(48.1, 11.6, 3, "48.1,11.6")


@pytest.mark.parametrize("text", ["91,0", "0,181", "-90.1,5", f"{'9' * 400},1"])
def test_what_is_not_on_earth(text: str) -> None:
    with pytest.raises(DataError, match="give degrees north, -90 to 90"):
        circle_of(text)


def test_a_long_run_of_blanks_or_digits_is_refused_at_once(
    towns_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tried in all the ways in which it can be parted, it would take hours."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(towns_home))
    for text in (f"1{' ' * 10_000}x", "1" * 10_000 + "x"):
        with pytest.raises(FixableError):
            circle_of(text)
        with pytest.raises(DataError, match="give a distance"):
            kilometres_of(text + "x")
