"""What becomes of two scores of one candidate, and of the answers of two engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from lexlip.search.engines import Results

Fusion = Literal["none", "add", "norm_add"]
"""How a reranker's probability meets the first stage's score: not at all (the paper's best), as the weighted
sum of both, or of both after each was stretched to 0 ... 1 over the candidates (Retrieve Fast, Table 9)."""

RANK = 60  # of reciprocal rank fusion (Cormack et al., 2009)


def fuse(first: np.ndarray, odds: np.ndarray, fusion: Fusion = "none", weight: float = 0.5) -> np.ndarray:
    """Scores to order a query's candidates by, float [k].

    Args:
        first: scores of the first stage, float [k].
        odds: log-odds of the reranker, float [k].
        fusion: how they meet.
        weight: of the first stage in a sum; the reranker has the rest.
    """
    if fusion == "none":
        return np.asarray(odds, np.float64)
    first, second = np.asarray(first, np.float64), probability(odds)
    if fusion == "norm_add":
        first, second = _stretched(first), _stretched(second)
    fused: np.ndarray = weight * first + (1 - weight) * second
    return fused


def probability(odds: np.ndarray) -> np.ndarray:
    """Of log-odds, float64 of the same shape."""
    return 1 / (1 + np.exp(-np.asarray(odds, np.float64)))


def _stretched(values: np.ndarray) -> np.ndarray:
    """To 0 ... 1; all 1 where they are equal, for what is not found has 0."""
    if not len(values):
        return values
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else np.ones_like(values)


def reciprocal_rank(answers: Sequence[Results], k: int) -> Results:
    """Answers of several engines as one: the sum of 1 / (60 + rank) (Cormack et al., 2009).

    Args:
        answers: what each engine found, for the same queries.
        k: documents of each query to keep.
    """
    return _sum([(ids, [1 / (RANK + 1 + np.arange(len(row))) for row in ids]) for ids, _ in answers], k)


def weighted(answers: Sequence[Results], k: int, weights: Sequence[float]) -> Results:
    """The same by the weighted sum of scores, each engine's stretched to 0 ... 1 over what it found.

    Args:
        answers: what each engine found, for the same queries.
        k: documents of each query to keep.
        weights: of the engines.
    """
    stretched = [
        (ids, [weight * _stretched(row) for row in scores])
        for (ids, scores), weight in zip(answers, weights, strict=True)
    ]
    return _sum(stretched, k)


def _sum(answers: Sequence[Results], k: int) -> Results:
    """For each query the documents with the largest sums; of equal ones the first found is first."""
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
