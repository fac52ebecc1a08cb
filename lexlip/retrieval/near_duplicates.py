"""Near-duplicates: photos of the same bytes, or with nearly the same fingerprint."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lexlip.data.facts import distances

NEAR = 6  # bits in which fingerprints may differ; docs/notes/2026-11-23-near-duplicates.md says why 6


def group_alike(photos: Sequence[tuple[str, str, int | None]]) -> list[list[str]]:
    """Put near-duplicates together.

    A photo joins the first group whose first photo has the same digest, or nearly the same fingerprint.

    Args:
        photos: id, digest ("" is unknown) and fingerprint of each, best first.

    Returns:
        The ids, in groups in the order of their first photos.
    """
    prints = np.zeros(len(photos), dtype=np.uint64)  # of the groups' first photos
    usable = np.zeros(len(photos), dtype=bool)
    digests: dict[str, int] = {}
    groups: list[list[str]] = []
    for id, digest, print in photos:
        number = digests.get(digest) if digest else None
        if number is None and print is not None:
            near = usable[: len(groups)] & (distances(print, prints[: len(groups)]) <= NEAR)
            number = int(np.argmax(near)) if near.any() else None
        if number is None:
            number = len(groups)
            groups.append([])
            prints[number], usable[number] = print or 0, print is not None
        groups[number].append(id)
        if digest:
            digests.setdefault(digest, number)
    return groups
