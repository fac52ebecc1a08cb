"""From float weights to the whole numbers that an impact index stores (Section 3.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from anserini_bridge.sparse_rows import Rows
from lexlip.errors import ConfigError, DataError
from lexlip.sparse.rows import owners

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Scheme = Literal["balanced", "unit", "paper", "dot"]
SCHEMES: tuple[str, ...] = get_args(Scheme)
UNIT_SCALE = 1000  # levels of a unit vector's largest possible weight
PAPER_SCALE = 100
TOO_LARGE = 2**31  # the first whole number that 32 bits do not hold


def quantize(vectors: csr_matrix, scheme: Scheme = "unit") -> csr_matrix:
    """Return integer impacts, int32 [n, V], of float vectors [n, V]; entries that become 0 are dropped.

    - ``unit``: round(1000 · p / ‖p‖). If the model is trained with cosines, the length of a document's
      vector must not count. A unit vector of 32 words has a mean weight of about 0.18, so a scale of 1000
      leaves some 180 levels where the paper's scale leaves 18.
    - ``dot``: round(1000 · p), of the vectors as they are, for a model that is trained with dot products.
      Their queries are quantised as ``unit``: a query's own length does not change which documents it finds.
    - ``balanced``: round(1000 · p), of documents that `lexlip.sparse.balance` gave their lengths. Their
      queries are quantised as ``unit``.
    - ``paper``: floor(100 · p), of the vectors as they are.

    Raises:
        ConfigError: unknown scheme.
        DataError: a weight is not finite, or too large for 32 bits.
    """
    if scheme not in SCHEMES:
        raise ConfigError(f"quantization is '{scheme}'; it must be one of {', '.join(SCHEMES)}")
    from scipy.sparse import csr_matrix

    weights = _whole(vectors.data, owners(vectors), vectors.shape[0], scheme)
    result = csr_matrix((weights, vectors.indices, vectors.indptr), shape=vectors.shape, copy=True)
    result.eliminate_zeros()
    return result


def quantize_queries(queries: csr_matrix | Rows, scheme: Scheme) -> Rows:
    """Return the whole weights, int32 [n, V], of float queries that search documents of a scheme.

    Entries that are not positive, or become 0, are dropped. DataError: see `quantize`.
    """
    number = queries.shape[0]
    order = np.lexsort((queries.indices, owners(queries)))
    order = order[~(queries.data[order] <= 0)]  # what is no number stays, and is refused
    rows, columns = owners(queries)[order], queries.indices[order]
    weights = _whole(queries.data[order], rows, number, query_scheme(scheme))
    stay = weights > 0
    starts = np.cumsum(np.bincount(rows[stay] + 1, minlength=number + 1)).astype(np.int32)
    return Rows(weights[stay], columns[stay].astype(np.int32), starts, queries.shape)


def _whole(data: NDArray[Any], rows: NDArray[np.int64], number: int, scheme: Scheme) -> NDArray[np.int32]:
    """Return the whole weights of entries of `number` rows, given each one's row."""
    data = data.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        if scheme == "paper":
            # p in float32 may be up to 2^-24 of itself below the decimal number it stands for, as 0.29 is
            impacts = np.floor(PAPER_SCALE * data * (1 + 2**-23))
        elif scheme in ("balanced", "dot"):
            impacts = np.rint(UNIT_SCALE * data)
        else:
            norms = np.sqrt(np.bincount(rows, weights=data**2, minlength=number))
            lengths = np.maximum(norms[rows], 1e-12)  # a row of zeros has no length
            impacts = np.where(np.isfinite(lengths), np.rint(UNIT_SCALE * data / lengths), np.nan)
    if impacts.size and not np.abs(impacts).max() < TOO_LARGE:  # NaN is not
        raise DataError("a weight is not a finite number, or too large to become a whole one of 32 bits")
    return impacts.astype(np.int32)


def scale_of(scheme: Scheme) -> int:
    """Return the factor by which a scheme multiplies weights."""
    return PAPER_SCALE if scheme == "paper" else UNIT_SCALE


def query_scheme(scheme: Scheme) -> Scheme:
    """Return how queries are quantised that search documents of a scheme."""
    return "paper" if scheme == "paper" else "unit"
