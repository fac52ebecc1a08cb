"""The photos of an index by date, newest first: those that know none come last."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lexlip.retrieval.photo import Dated

_LONGEST = len("2019-07-01T12:30:00")
_MONTH = len("2019-07")


class Run(NamedTuple):
    """The photos of one month, "2019-07": where they begin, and how many are dated by their file alone."""

    month: str
    first: int
    photos: int
    by_file: int


@dataclass(frozen=True)
class ByDate:
    """n photos by date, newest first; of half a million they take 60 MB.

    Attributes:
        ids: those of the same date come by id.
        dates: as ASCII, S19 [n]; b"" is unknown.
        by_file: whether only a photo's file has a date, [n].
    """

    ids: Sequence[str]
    dates: NDArray[np.bytes_]
    by_file: NDArray[np.bool_]

    @property
    def dated(self) -> int:
        """The number of those with a date."""
        return int(np.count_nonzero(self.dates))

    def months(self) -> Iterator[Run]:
        """Yield the months that have photos."""
        months = self.dates[: self.dated].astype(f"S{_MONTH}")
        changes = np.flatnonzero(months[1:] != months[:-1]) + 1
        for first, end in pairwise([0, *changes.tolist(), len(months)] if len(months) else []):
            by_file = int(np.count_nonzero(self.by_file[first:end]))
            yield Run(months[first].decode(), first, end - first, by_file)

    def only(self, ids: Collection[str]) -> ByDate:
        """Return those with some ids."""
        wanted = frozenset(ids)
        places = np.array([place for place, id in enumerate(self.ids) if id in wanted], dtype=np.int64)
        return self._at(places)

    def turned(self) -> ByDate:
        """Return them oldest first; those that know no date come last again."""
        dated = self.dated
        return self._at(np.concatenate([np.arange(dated)[::-1], np.arange(dated, len(self.ids))]))

    def _at(self, places: NDArray[np.int64]) -> ByDate:
        return ByDate([self.ids[place] for place in places], self.dates[places], self.by_file[places])


def by_date(photos: Sequence[Dated]) -> ByDate:
    """Return photos by date, given by id."""
    dates = np.array([(photo.date or "").encode() for photo in photos], dtype=f"S{_LONGEST}")
    by_file = np.array([photo.by_file for photo in photos], dtype=bool)
    order = len(photos) - 1 - np.argsort(dates[::-1], kind="stable")[::-1]
    return ByDate([photos[place].id for place in order], dates[order], by_file[order])
