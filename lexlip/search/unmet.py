"""Why no photo meets the filters of a search."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lexlip.data.nearness import distance
from lexlip.retrieval.filters import Filters
from lexlip.words.plain_text import composed, readable

if TYPE_CHECKING:
    from lexlip.retrieval.circle import Circle
    from lexlip.retrieval.photo_table import PhotoTable

NAMED = 10  # folders that are told if no photo meets a filter


def why_unmet(photos: PhotoTable, filters: Filters | None) -> str:
    """Return why no photo meets the filters, and what there is instead; "" if a photo meets them."""
    if not filters or photos.select(filters):
        return ""
    facets = photos.facets()
    if filters.album and not photos.select(Filters(listed=filters.listed)):
        return f"no photo of the album {readable(filters.album)} is in this index"
    folder = Filters(folder=filters.folder)
    if folder and not photos.select(folder):
        return f"no photo is in the folder {readable(folder.below)}; {_folders(facets, folder.below)}"
    if filters.circle and not facets["located"]:
        older = "; of an older index, `lexlip index --anew` reads them" if photos.may_lack_places else ""
        return f"no photo of this index has a known place{older}"
    if filters.circle and not photos.select(Filters(near=filters.near, within=filters.within)):
        return _none_near(photos, filters.circle)
    if filters.caption and not facets["captioned"]:
        return "no photo of this index has captions or keywords"
    where = f"in the folder {readable(folder.below)}" if folder else "of this index"
    if (filters.after or filters.before) and not photos.select(replace(filters, caption=None)):
        dates = [one for one in photos.dates_of(photos.select(folder)) if one and one.date]
        files = sum(one.by_file for one in dates)
        days = sorted(str(one.date)[:10] for one in dates if filters.file_dates or not one.by_file)
        none = f"no photo {where} has a date"
        if days:
            none = f"no photo {where} has such a date; they were taken from {days[0]} to {days[-1]}"
        if files and filters.file_dates:
            return f"{none}, {files} of {len(dates)} by the file alone"
        return f"{none}; of {files} only the file has one" if files else none
    if not photos.select(Filters(caption=filters.caption)):
        return f"no photo has captions or keywords with all words of {readable(str(filters.caption))!r}"
    return "no photo meets all the filters at once: leave one out"


def _none_near(photos: PhotoTable, circle: Circle) -> str:
    """Return how far the nearest photo is from a circle's middle."""
    everywhere = Filters(near=f"{circle.latitude},{circle.longitude}", within="99999km")
    places = photos.places(photos.select(everywhere)).values()
    far = [distance(*place, circle.latitude, circle.longitude) for place in places]
    none = f"no photo was taken within {circle.kilometres:g} km of {circle.name}"
    return f"{none}; the nearest was {min(far):,.1f} km away" if far else none


def _folders(facets: dict[str, Any], given: str) -> str:
    """Return the folder that is meant by a path on the disk, or in other case; else the uppermost ones."""
    names = sorted((one["folder"] for one in facets["folders"]), key=lambda name: (name.count("/"), name))
    path = f"/{composed(given)}".casefold()
    meant = [name for name in names if path.endswith(f"/{composed(name)}".casefold())]
    if meant:
        return f"give {readable(meant[-1])}, as folders begin below the one that was indexed"
    if not names:
        return "the index has no folders"
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"folders are {', '.join(map(readable, names[:NAMED]))}{more}"
