"""Folds: photos divided into equal parts, each of which is a pool of its own; recalls are means over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lexlip.data import Source
from lexlip.data.subset import Subset
from lexlip.errors import DataError
from lexlip.measure.evaluate import Report
from lexlip.measure.pool import PoolVectors


def fold_vectors(vectors: PoolVectors, folds: int) -> Iterator[PoolVectors]:
    """Divide a pool whose photos are all queries: consecutive photos, with their captions.

    Raises:
        DataError: a fold has no captions.
    """
    pool = vectors.pool
    for rows in _divide(len(pool.image_ids), folds):
        start, end = np.searchsorted(pool.owners, [rows[0], rows[-1] + 1])
        if start == end:
            raise DataError(f"one of {folds} folds has no captions: use fewer (--folds)")
        part = replace(
            pool,
            image_ids=pool.image_ids[rows[0] : rows[-1] + 1],
            text_ids=pool.text_ids[start:end],
            texts=pool.texts[start:end],
            owners=pool.owners[start:end] - rows[0],
            text_queries=int(end - start),
        )
        yield replace(vectors, pool=part, images=vectors.images[rows], captions=vectors.captions[start:end])


def fold_sources(source: Source, folds: int) -> Iterator[Source]:
    """Divide photos that are not encoded."""
    for rows in _divide(len(source), folds):
        yield Subset(source, rows.tolist())


def mean_report(reports: Sequence[Report]) -> Report:
    """Return the mean recalls of folds, and the number of photos and captions of the first; no rankings."""
    first, *others = reports
    if not others:
        return first
    means = {
        way: {
            name: float(np.mean([getattr(report, way)[name] for report in reports]))
            for name in getattr(first, way)
        }
        for way in ("t2i", "i2t")
    }
    return replace(first, t2i=means["t2i"], i2t=means["i2t"], rankings={})


def _divide(photos: int, folds: int) -> list[NDArray[np.int64]]:
    if folds > photos:
        raise DataError(f"{photos} photos cannot be divided into {folds} folds")
    return np.array_split(np.arange(photos), folds)
