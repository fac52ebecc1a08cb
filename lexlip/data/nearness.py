"""Places on Earth, in degrees north and east (WGS 84), and how far they are from each other."""

from __future__ import annotations

import math

EARTH = 6371.0088  # kilometres: the mean radius of the Earth (IUGG)
A_DEGREE = math.pi * EARTH / 180  # kilometres from south to north


def is_place(latitude: float, longitude: float) -> bool:
    """Return whether there is such a place on Earth."""
    return -90 <= latitude <= 90 and -180 <= longitude <= 180


def distance(latitude: float, longitude: float, of_latitude: float, of_longitude: float) -> float:
    """Return the great-circle distance of two places in kilometres, by the haversine formula."""
    north, of_north = math.radians(latitude), math.radians(of_latitude)
    across = math.sin(math.radians(of_longitude - longitude) / 2) ** 2
    chord = math.sin((of_north - north) / 2) ** 2 + math.cos(north) * math.cos(of_north) * across
    return 2 * EARTH * math.asin(min(1.0, math.sqrt(chord)))
