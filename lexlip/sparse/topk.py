"""Top-K sparsification: a document keeps its K heaviest words (Section 3.4)."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix


def topk(vectors: csr_matrix, k: int | None) -> csr_matrix:
    """Return the K heaviest positive entries of each row of [n, V]; None keeps all of them.

    Ties go to the smaller column, so that the result does not depend on the order of the entries.

    Raises:
        ValueError: k < 1.
    """
    vectors = csr_matrix(vectors, copy=True)
    vectors.data[vectors.data < 0] = 0
    vectors.eliminate_zeros()
    vectors.sort_indices()
    if k is None:
        return vectors
    if k < 1:
        raise ValueError(f"top-K must be at least 1, not {k}")
    lengths = np.diff(vectors.indptr)
    if lengths.max(initial=0) <= k:
        return vectors
    rows = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((vectors.indices, -vectors.data.astype(np.float64), rows))  # stable, by row first
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(vectors.indptr[:-1], lengths)
    kept = rank < k
    indptr = np.concatenate([[0], np.cumsum(np.minimum(lengths, k))])
    return csr_matrix((vectors.data[kept], vectors.indices[kept], indptr), shape=vectors.shape)
