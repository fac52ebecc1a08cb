"""Top-K, quantisation, recall and words@10 as loops."""

import math
from collections.abc import Collection, Sequence
from decimal import Decimal

import numpy as np


def naive_topk(rows: np.ndarray, k: int) -> np.ndarray:
    """Of each row the k heaviest positive entries; ties go to the smaller column."""
    kept = np.zeros_like(rows)
    for row, values in enumerate(rows):
        for column in sorted(range(len(values)), key=lambda c: (-values[c], c))[:k]:
            if values[column] > 0:
                kept[row, column] = values[column]
    return kept


def naive_unit(rows: np.ndarray) -> np.ndarray:
    """round(1000 * p / length), half to even."""
    impacts = np.zeros(rows.shape, dtype=int)
    for row, values in enumerate(rows.astype(float)):
        length = math.sqrt(sum(value * value for value in values))
        for column, value in enumerate(values):
            impacts[row, column] = round(1000 * value / length) if length else 0
    return impacts


def exact_paper(weight: str) -> int:
    """floor(100 * p) of a weight written as a decimal."""
    return int(Decimal(weight) * 100)


def naive_recall(results: Sequence[Sequence[str]], relevant: Sequence[Collection[str]], k: int) -> float:
    hits = 0
    for found, right in zip(results, relevant, strict=True):
        hits += any(id in right for id in found[:k])
    return 100 * hits / len(results)
