"""What CONTRIBUTING.md names exists."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PLACES = sorted(set(re.findall(r"`((?:lexlip|anserini_bridge|tests|tools|configs)/[\w./]*(?::\w+)?)`", TEXT)))


def test_places_are_named() -> None:
    assert len(PLACES) > 40


@pytest.mark.parametrize("place", PLACES)
def test_a_place_is_there(place: str) -> None:
    path, _, name = place.partition(":")
    assert (ROOT / path).exists()
    if name:
        assert hasattr(import_module(path.removesuffix(".py").replace("/", ".")), name)


def test_every_room_is_in_the_layout() -> None:
    layout = TEXT.partition("## The layout")[2].partition("## To change")[0]
    rooms = {path.parent.relative_to(ROOT) for path in (ROOT / "lexlip").rglob("*.py")} - {Path("lexlip")}
    missing = [room for room in rooms if not re.search(rf"`(?:[\w/]*/)?{room.name}/`", layout)]
    assert not missing
