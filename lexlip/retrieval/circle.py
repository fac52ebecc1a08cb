"""What is near a place: how people write it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from lexlip.data.nearness import is_place
from lexlip.errors import DataError
from lexlip.words.plain_text import readable

WITHIN = "25km"
QUOTES = '"“”'
_UNITS = {"": 1.0, "km": 1.0, "m": 0.001, "mi": 1.609344}

# of texts with single spaces, so that a long run of them is not tried in many ways
_NUMBER = r"\d+(?:\.\d*)?|\.\d+"
_COORDINATES = re.compile(rf"([-+]?(?:{_NUMBER})) ?°? ?(?:[,;] ?|(?<= ))([-+]?(?:{_NUMBER})) ?°?")
_DISTANCE = re.compile(rf"({_NUMBER}) ?(km|mi|m|)", re.IGNORECASE)


@dataclass(frozen=True)
class Circle:
    """What is at most so many kilometres from a place; its name is that of a town, or its degrees."""

    latitude: float
    longitude: float
    kilometres: float
    name: str


def kilometres_of(within: str | None) -> float:
    """Return a distance such as 20km, 500m, 12mi (miles) or 20 in kilometres; without one WITHIN.

    Raises:
        DataError: it is something else, or not more than 0.
    """
    found = _DISTANCE.fullmatch(" ".join((within or WITHIN).split()))
    kilometres = float(found[1]) * _UNITS[found[2].lower()] if found else 0.0
    if not 0 < kilometres < math.inf:
        raise DataError(f"'within' is {readable(str(within))!r}: give a distance such as 20km, 500m or 12mi")
    return kilometres


def circle_of(near: str, within: str | None = None) -> Circle:
    """Return what is near a place.

    Args:
        near: degrees north and east, such as "48.1,11.6", or a town, see `lexlip.retrieval.gazetteer`.
        within: how far away, see `kilometres_of`.

    Raises:
        DataError: there is no such place or distance.
        MissingPackage: it is a name, and the package that knows names is not installed.
    """
    place = " ".join(near.strip().strip(QUOTES).split())
    numbers = _COORDINATES.fullmatch(place)
    if numbers is None:
        from lexlip.retrieval.gazetteer import find_place

        town = find_place(place)
        return Circle(town.latitude, town.longitude, kilometres_of(within), str(town))
    latitude, longitude = map(float, numbers.groups())
    if not is_place(latitude, longitude):
        raise DataError(
            f"'near' is '{readable(place)}': give degrees north, -90 to 90, and east, -180 to 180, as in"
            " 48.1,11.6"
        )
    return Circle(latitude, longitude, kilometres_of(within), f"{latitude:g},{longitude:g}")
