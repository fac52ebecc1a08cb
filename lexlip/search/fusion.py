"""Fuses two scores of one candidate, and the answers of two engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from lexlip.retrieval.engine import Results

Fusion = Literal["none", "add", "norm_add"]
"""How a reranker's probability is combined with the first stage's score (Retrieve Fast, Table 9).

Not at all (the paper's best), as their weighted sum, or as the weighted sum after each was scaled to 0 ... 1
over the candidates.
"""

Hybrid = Literal["rrf", "weighted"]
"""How two answers are fused: by the ranks of a photo in both, or by its scores."""

RANK = 60  # of reciprocal rank fusion (Cormack et al., 2009)
DEPTH = 100  # documents of each of two engines that are fused


def fuse(first: np.ndarray, odds: np.ndarray, fusion: Fusion = "none", weight: float = 0.5) -> np.ndarray:
    """Return the scores that a query's k candidates are ordered by, float [k].

    Args:
        first, odds: scores of the first stage, and log-odds of the reranker, float [k].
        fusion: how they are combined.
        weight: of the first in a sum; the odds have the rest.
    """
    if fusion == "none":
        return np.asarray(odds, np.float64)
    first, second = np.asarray(first, np.float64), probability(odds)
    if fusion == "norm_add":
        first, second = _scaled(first), _scaled(second)
    fused: np.ndarray = weight * first + (1 - weight) * second
    return fused


def probability(odds: np.ndarray) -> np.ndarray:
    """Return the probability, float64, of log-odds."""
    return 1 / (1 + np.exp(-np.asarray(odds, np.float64)))


def _scaled(values: np.ndarray) -> np.ndarray:
    """Scale values to 0 ... 1; equal ones become 1, as what was not found has 0."""
    if not len(values):
        return values
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else np.ones_like(values)


def fuse_two(first: Results, second: Results, k: int, how: Hybrid = "rrf", weight: float = 0.5) -> Results:
    """Fuse what two engines found for the same queries; return the k best documents of each.

    Args:
        first, second: what they found.
        k: documents of each query.
        how: "rrf" is by the sum of 1 / (60 + rank) (Cormack et al., 2009); "weighted" by that of scores, each
            engine's scaled to 0 ... 1 over what it found.
        weight: of the first engine's scores; the second's have the rest.
    """
    if how == "rrf":
        shares = [[1 / (RANK + 1 + np.arange(len(row))) for row in scores] for _, scores in (first, second)]
    else:
        weights = (first[1], weight), (second[1], 1 - weight)
        shares = [[share * _scaled(row) for row in scores] for scores, share in weights]
    return _sum([(first[0], shares[0]), (second[0], shares[1])], k)


def _sum(answers: Sequence[Results], k: int) -> Results:
    """Return for each query the documents with the largest sums; of equal ones the first found is first."""
    ids: list[list[str]] = []
    scores: list[np.ndarray] = []
    for query in range(len(answers[0][0])):
        sums: dict[str, float] = {}
        for found, points in answers:
            for id, value in zip(found[query], points[query], strict=True):
                sums[id] = sums.get(id, 0.0) + float(value)
        best = sorted(sums, key=lambda id: -sums[id])[:k]
        ids.append(best)
        scores.append(np.array([sums[id] for id in best]))
    return ids, scores
