import math

import numpy as np
import pytest

from lexlip.data.nearness import EARTH, distance


def unit(latitude: float, longitude: float) -> np.ndarray:
    north, east = math.radians(latitude), math.radians(longitude)
    return np.array([math.cos(north) * math.cos(east), math.cos(north) * math.sin(east), math.sin(north)])


def test_distances_are_angles_between_vectors() -> None:
    rng = np.random.default_rng(0)
    places = [(90.0, 0.0), (-90.0, 30.0), (0.0, 180.0), (0.0, -180.0), (1e-5, 1e-5), (48.1, 11.6)]
    places += [tuple(place) for place in rng.uniform((-90, -180), (90, 180), (40, 2))]
    for one in places:
        for other in places:
            cross = float(np.linalg.norm(np.cross(unit(*one), unit(*other))))
            angle = math.atan2(cross, float(unit(*one) @ unit(*other)))
            assert distance(*one, *other) == pytest.approx(EARTH * angle, abs=1e-6, rel=1e-9)
    assert distance(0, 179.9, 0, -179.9) == pytest.approx(22.24, abs=0.01)
    assert distance(52.52, 13.405, 48.137, 11.575) == pytest.approx(504, abs=1)  # Berlin and Munich
