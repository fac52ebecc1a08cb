from pathlib import Path

import numpy as np
import pytest

from lexlip.data import Scenes, open_source
from lexlip.data.views import Concat, Subset
from tests.data.pictures import jpeg, write


def test_joined_sources(tmp_path: Path) -> None:
    write(tmp_path / "x" / "a.jpg", jpeg((11, 10)))
    write(tmp_path / "y" / "b.jpg", jpeg((12, 10)))
    write(tmp_path / "y" / "b.txt", "a dog")
    source = Concat([open_source(path) for path in (str(tmp_path / "x"), str(tmp_path / "y"))])
    assert [(item.id, item.captions) for item in source.items] == [("x/a.jpg", ()), ("y/b.jpg", ("a dog",))]
    assert [source.image(index).size for index in range(2)] == [(11, 10), (12, 10)]
    assert source.path(1) == f"{tmp_path}/y/b.jpg"
    assert source.read(1) == source.read(-1) == jpeg((12, 10))
    assert source.captioned().tolist() == [1]
    with pytest.raises(IndexError):
        source.read(2)


def test_joined_ids_are_numbered_only_if_the_names_are_alike(tmp_path: Path) -> None:
    for folder in ("x/photos", "y/photos", "z"):
        write(tmp_path / folder / "a.jpg", jpeg())
    different = Concat([open_source(path) for path in (tmp_path / "x" / "photos", tmp_path / "z")])
    assert [item.id for item in different.items] == ["photos/a.jpg", "z/a.jpg"]
    alike = Concat([open_source(tmp_path / name / "photos") for name in "xy"])
    assert [item.id for item in alike.items] == ["1-photos/a.jpg", "2-photos/a.jpg"]


def test_scenes_can_be_joined() -> None:
    source = Concat([Scenes(2, seed=0, size=32), Scenes(3, seed=1, size=64)])
    assert [source.image(index).size[0] for index in range(5)] == [32, 32, 64, 64, 64]


SCENES = Scenes(6, seed=0)


def test_photos_in_an_order_of_ones_own() -> None:
    chosen = Subset(SCENES, [4, 1], captions=2)
    assert [item.id for item in chosen.items] == [SCENES.items[4].id, SCENES.items[1].id]
    assert [item.captions for item in chosen.items] == [SCENES.items[row].captions[:2] for row in (4, 1)]
    assert len(chosen) == 2
    assert (chosen.name, chosen.skipped) == (SCENES.name, [])
    assert chosen.captioned().tolist() == [0, 1]
    for place, row in enumerate((4, 1)):
        assert np.array_equal(np.array(chosen.image(place)), np.array(SCENES.image(row)))
        assert (chosen.read(place), chosen.path(place)) == (SCENES.read(row), SCENES.path(row))
        assert chosen.file(place) == SCENES.file(row)


def test_all_captions() -> None:
    assert Subset(SCENES, [3]).items[0] == SCENES.items[3]
