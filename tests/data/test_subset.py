import numpy as np

from lexlip.data import Scenes
from lexlip.data.subset import Subset

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
