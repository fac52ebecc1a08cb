"""Which photos ask, and among which others their captions and they are to be found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lexlip.data import Source, spread
from lexlip.data.chosen import ChosenSource
from lexlip.data.joined import JoinedSource
from lexlip.errors import DataError


@dataclass(frozen=True)
class Questions:
    """A pool of photos with captions; the first `asking` photos ask, and so do their captions."""

    pool: Source
    asking: int


def make_questions(
    source: Source,
    others: Sequence[Source] = (),
    pairs: int | None = None,
    captions: int | None = None,
    alone: bool = False,
) -> Questions:
    """A pool of all photos, some of which ask.

    Args:
        source: photos with captions.
        others: further photos that are searched among.
        pairs: so many of the photos with captions ask, evenly spread; None: all photos.
        captions: the first so many captions of a photo count; None: all.
        alone: those that ask are the pool.

    Raises:
        DataError: no photo has a caption.
    """
    captioned = source.captioned()
    if not len(captioned):
        raise DataError(f"no photo of {source.name} has a caption: there is nothing to measure with")
    everything = np.arange(len(source))
    first = everything if pairs is None else captioned[list(spread(len(captioned), pairs))]
    rest = everything[:0] if alone else np.setdiff1d(everything, first)
    pool: Source = ChosenSource(source, [*first.tolist(), *rest.tolist()], captions)
    if others:
        further = [ChosenSource(other, range(len(other)), captions) for other in others]
        pool = JoinedSource([pool, *further])
    return Questions(pool, len(first))
