"""The photos of a table: which are queries, and among which others they are to be found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lexlip.data import Source, spread
from lexlip.data.concat import Concat
from lexlip.data.source import no_captions
from lexlip.data.subset import Subset


@dataclass(frozen=True)
class QueryPool:
    """Photos with captions; the first `queries` photos, and their captions, are queries."""

    source: Source
    queries: int

    @property
    def captions_per_photo(self) -> float:
        """How many captions a photo that is a query has, on average."""
        return sum(len(item.captions) for item in self.source.items[: self.queries]) / self.queries


def make_query_pool(
    source: Source,
    others: Sequence[Source] = (),
    queries: int | None = None,
    captions: int | None = None,
    queries_only: bool = False,
) -> QueryPool:
    """Return a pool of all photos, some of which are queries.

    Args:
        source: photos with captions.
        others: further photos that are searched among.
        queries: so many of the photos with captions are queries, evenly spread; None: all photos.
        captions: the first so many captions of a photo count; None: all.
        queries_only: the pool has no other photos.

    Raises:
        DataError: no photo has a caption.
    """
    captioned = source.captioned()
    if not len(captioned):
        raise no_captions(source.name)
    everything = np.arange(len(source))
    first = everything if queries is None else captioned[list(spread(len(captioned), queries))]
    rest = everything[:0] if queries_only else np.setdiff1d(everything, first)
    pool: Source = Subset(source, [*first.tolist(), *rest.tolist()], captions)
    if others:
        further = [Subset(other, range(len(other)), captions) for other in others]
        pool = Concat([pool, *further])
    return QueryPool(pool, len(first))
