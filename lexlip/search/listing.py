"""Photos without a query: listed by date in pages, and counted by month."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from lexlip.retrieval.answer import key_of
from lexlip.retrieval.photo import dated_by
from lexlip.search.cursors import Cursor, begin, digest
from lexlip.search.unmet import why_unmet

if TYPE_CHECKING:
    from lexlip.retrieval.filters import Filters
    from lexlip.retrieval.photo import DatedBy, Photo
    from lexlip.search.answering import IndexState

Order = Literal["newest", "oldest"]
"""Of photos by date."""


@dataclass(frozen=True)
class ListedPhoto:
    """A photo of a listing.

    Attributes:
        date: by which it is listed: when it was taken, or else when its file was modified.
        dated: what says so.
        id, path, width, height, taken, version: see `lexlip.retrieval.answer.Hit`.
    """

    id: str
    path: str
    width: int
    height: int
    taken: str | None
    date: str | None
    dated: DatedBy
    version: str

    @property
    def key(self) -> str:
        """The id as an address can hold it."""
        return key_of(self.id)


@dataclass(frozen=True)
class Listing:
    """A page of photos by date.

    Attributes:
        total: the number of photos on all pages.
        cursor: asks for the next page of this state of the index; None: there is none.
        unmet: why no photo meets the filters; "" if one does.
    """

    photos: Sequence[ListedPhoto]
    total: int
    cursor: str | None
    unmet: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain dictionaries and lists."""
        return {**asdict(self), "photos": [{"key": one.key, **asdict(one)} for one in self.photos]}


@dataclass(frozen=True)
class Month:
    """A month that has photos.

    Attributes:
        month: "2019-07".
        photos: how many.
        by_file_time: how many of these are dated by their files alone.
        key: of its newest photo.
        cursor: asks for the page that begins with that, newest first.
    """

    month: str
    photos: int
    by_file_time: int
    key: str
    cursor: str


@dataclass(frozen=True)
class Timeline:
    """Months, newest first, and the photos without a date.

    Attributes:
        undated: how many these are.
        undated_cursor: asks for the page that begins with the first of them; None: there are none.
    """

    months: Sequence[Month]
    undated: int
    undated_cursor: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain dictionaries and lists."""
        return asdict(self)


def page_by_date(
    state: IndexState, k: int, filters: Filters | None, cursor: str | None, order: Order
) -> Listing:
    """Return a page; see `PhotoSearch.listed`."""
    found = state.by_date(filters)
    if order == "oldest":
        found = found.turned()
    start = begin(_beginning(state, filters, order), cursor)
    end = start.first + k
    ids = found.ids[start.first : end]
    about = zip(state.get(ids), found.dates[start.first : end], found.by_file[start.first : end], strict=True)
    return Listing(
        [_listed(photo, date.decode(), by_file) for photo, date, by_file in about if photo],
        len(found.ids),
        str(start._replace(first=end)) if end < len(found.ids) else None,
        "" if found.ids else why_unmet(state.photos, filters),
    )


def months_of(state: IndexState, filters: Filters | None) -> Timeline:
    """Return the months; see `PhotoSearch.timeline`."""
    found, start = state.by_date(filters), _beginning(state, filters, "newest")
    months = [
        Month(run.month, run.photos, run.by_file, key_of(found.ids[run.first]), _at(start, run.first))
        for run in found.months()
    ]
    undated = len(found.ids) - found.dated
    return Timeline(months, undated, _at(start, found.dated) if undated else None)


def _beginning(state: IndexState, filters: Filters | None, order: Order) -> Cursor:
    return Cursor(0, state.name, digest("by date", filters, order))


def _at(start: Cursor, first: int) -> str:
    return str(start._replace(first=first))


def _listed(photo: Photo, date: str, by_file: bool) -> ListedPhoto:
    about = photo.width, photo.height, photo.taken
    return ListedPhoto(photo.id, photo.path, *about, date or None, dated_by(date, by_file), photo.version)
