"""Recall at k."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np


def recall_at_k(
    results: Sequence[Sequence[str]], relevant: Sequence[Collection[str]], ks: Sequence[int] = (1, 5, 10)
) -> dict[str, float]:
    """Return the share of queries, in percent, that have a relevant id among the first k.

    Args:
        results: for each query the ids found, best first.
        relevant: for each query the ids it should find.
        ks: cut-offs.

    Returns:
        {"R@1": ..., ...}
    """
    firsts = [
        next((rank for rank, id in enumerate(found, 1) if id in right), np.inf)
        for found, right in zip(results, relevant, strict=True)
    ]
    ranks = np.array(firsts, dtype=float)
    return {f"R@{k}": 100 * int((ranks <= k).sum()) / max(1, len(ranks)) for k in ks}
