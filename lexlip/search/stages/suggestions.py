"""Words to search on with: what the photos that were found have in common, and others do not."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

HITS = 30  # of an answer that suggestions are taken from
FEWEST = 2  # of them that must hold a word


def suggest(
    hits: csr_matrix, frequencies: NDArray[np.int64], documents: int, known: Collection[int], number: int
) -> list[int]:
    """Return the columns of words, the most telling first.

    A word counts by its mean weight in the hits times the logarithm of how rare it is, as in tf-idf.

    Args:
        hits: weights of the photos that were found, [n, V].
        frequencies: in how many photos of the index each word is, [V].
        documents: in the index.
        known: columns that the query has already.
        number: of words.
    """
    held = hits.getnnz(axis=0)
    mean = np.asarray(hits.sum(axis=0)).ravel() / max(1, hits.shape[0])
    value = mean * np.log((1 + documents) / (1 + frequencies))
    value[held < min(FEWEST, hits.shape[0])] = 0
    value[list(known)] = 0
    best = np.argsort(-value, kind="stable")[:number]
    return [int(column) for column in best if value[column] > 0]
