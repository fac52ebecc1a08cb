from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from lexlip.data import open_source
from tests.data.pictures import write_tar


def test_they_are_like_a_list(tmp_path: Path) -> None:
    for number in range(4):  # the third is empty
        files = {f"{number}{n}.jpg": b"" for n in range(3)} if number != 2 else {"a.md": b""}
        write_tar(tmp_path / f"{number}.tar", files)
    items = open_source(tmp_path).items
    plain = list(items)
    assert [item.id for item in plain] == [f"{k}.tar/{k}{n}.jpg" for k in (0, 1, 3) for n in range(3)]
    assert [items[index] for index in range(-9, 9)] == plain + plain
    for cut in (slice(2, 7), slice(None, None, -2), slice(-2, None), slice(20, 30)):
        assert items[cut] == plain[cut]
    for index in (9, -10):
        with pytest.raises(IndexError):
            items[index]
    assert list(reversed(items)) == plain[::-1]
    assert items.index(plain[4]) == 4
    assert items == plain
    assert items != plain[:-1]
    assert items != [*plain[:-1], plain[0]]
    assert items != 3
    assert pickle.loads(pickle.dumps(items)) == items
