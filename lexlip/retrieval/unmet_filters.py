"""Says why no photo of an index meets filters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lexlip.retrieval.filters import Filters
from lexlip.retrieval.photo_table import PhotoTable
from lexlip.words.plain_text import readable

NAMED = 10  # folders
EVER = "0001"  # all dates are after it


def why_unmet(photos: PhotoTable, filters: Filters) -> str:
    """Return why no photo meets the filters, and what there is instead; "" if a photo meets them."""
    if photos.select(filters):
        return ""
    facets = photos.facets()
    folder = Filters(folder=filters.folder)
    if folder and not photos.select(folder):
        return f"no photo is in the folder {readable(folder.below)}; {_folders(facets)}"
    if filters.caption and not facets["captioned"]:
        return "no photo of this index has captions or keywords"
    where = f"in the folder {readable(folder.below)}" if folder else "of this index"
    dated = photos.select(replace(folder, after=EVER)) if filters.after or filters.before else []
    if (filters.after or filters.before) and not dated:
        return f"no photo {where} has a date"
    if dated and not photos.select(replace(filters, caption=None)):
        days = sorted(day[:10] for day in photos.taken(dated) if day)
        return f"no photo {where} has such a date; they were taken from {days[0]} to {days[-1]}"
    if not photos.select(Filters(caption=filters.caption)):
        return f"no photo has captions or keywords with all words of {readable(str(filters.caption))!r}"
    return "no photo meets all the filters at once: leave one out"


def _folders(facets: dict[str, Any]) -> str:
    """Return the uppermost folders, as a sentence."""
    names = sorted((one["folder"] for one in facets["folders"]), key=lambda name: (name.count("/"), name))
    if not names:
        return "the index has no folders"
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"folders are {', '.join(map(readable, names[:NAMED]))}{more}"
