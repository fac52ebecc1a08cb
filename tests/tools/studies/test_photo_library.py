from pathlib import Path

import pytest

from lexlip.data import Scenes, open_source
from tools.studies.photo_library import LARGE, YEARS, main


def test_a_library_is_the_same_each_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        main(tmp_path / name, 2, [Scenes(12, 0), Scenes(8, 1)])
    source = open_source(tmp_path / "one")
    assert len(source) == 20
    facts = []
    for number, item in enumerate(source.items):
        assert (tmp_path / "one" / item.id).read_bytes() == (tmp_path / "two" / item.id).read_bytes()
        year, month, _ = item.id.split("/")
        picture, fact = source.photo(number)
        assert (max(picture.size) == LARGE[0]) == (item.id[-10:-4] in ("000000", "000001"))
        assert fact.taken is None or fact.taken[:7] == month
        assert int(year) in YEARS
        facts.append(fact)
    assert 10 < sum(fact.taken is not None for fact in facts) < 20
    assert 4 < sum(fact.place is not None for fact in facts) < 16
    assert any(fact.place == pytest.approx((48.14, 11.58), abs=0.3) for fact in facts if fact.place)
