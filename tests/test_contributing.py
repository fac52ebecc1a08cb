"""What CONTRIBUTING.md and docs/design.md name exists."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
DESIGN = (ROOT / "docs/design.md").read_text(encoding="utf-8")
PLACE = re.compile(r"`((?:lexlip|anserini_bridge|benchmarks|tests|tools|configs)/[\w./]*(?::\w+)?)`")
PLACES = sorted(set(PLACE.findall(TEXT + DESIGN)))


def test_places_are_named() -> None:
    assert len(PLACES) > 40


@pytest.mark.parametrize("place", PLACES)
def test_a_place_is_there(place: str) -> None:
    path, _, name = place.partition(":")
    assert (ROOT / path).exists()
    if name:
        assert hasattr(import_module(path.removesuffix(".py").replace("/", ".")), name)


def test_every_room_is_in_the_layout() -> None:
    rooms = {path.parent.relative_to(ROOT) for path in (ROOT / "lexlip").rglob("*.py")} - {Path("lexlip")}
    missing = [room for room in rooms if not re.search(rf"`(?:[\w/]*/)?{room.name}/`", DESIGN)]
    assert not missing
