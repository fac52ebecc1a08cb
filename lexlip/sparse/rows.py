"""Sparse rows: their lengths, and how files keep them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from anserini_bridge.sparse_rows import Rows

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def unit_length(vectors: csr_matrix) -> csr_matrix:
    """Return vectors [n, V] with length 1, float32; rows of zeros stay."""
    from scipy.sparse import csr_matrix, diags_array

    rows = csr_matrix(vectors, dtype=np.float32)
    norms = np.sqrt(rows.multiply(rows).sum(axis=1)).A1
    return csr_matrix(diags_array(1 / np.maximum(norms, np.float32(1e-12))) @ rows)


def row_of(vector: NDArray[np.float32]) -> csr_matrix:
    """Return a vector [V] as a row, float32 [1, V], in a fifth of the time that scipy takes."""
    return Rows.of_vector(vector).csr()


def owners(rows: csr_matrix | Rows) -> NDArray[np.int64]:
    """Return the row of each stored entry."""
    return np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))


def packed(rows: csr_matrix, prefix: str = "") -> dict[str, NDArray[Any]]:
    """Return the arrays of rows [n, V], under names that begin with `prefix`."""
    return {
        f"{prefix}weights": rows.data,
        f"{prefix}columns": rows.indices.astype(np.int32),
        f"{prefix}starts": rows.indptr,
    }


def unpacked(arrays: Mapping[str, NDArray[Any]], width: int, dtype: Any, prefix: str = "") -> Rows:
    """Return the rows of some of such arrays, [n, width]; KeyError, ValueError: they do not fit together."""
    weights, columns, starts = (arrays[f"{prefix}{part}"] for part in ("weights", "columns", "starts"))
    parts = weights.astype(dtype, copy=False), columns.astype(np.int32, copy=False), starts
    rows = Rows(*parts, (len(starts) - 1, width))
    rows.check()
    return rows


@contextmanager
def part_of_model(file: Path) -> Iterator[dict[str, NDArray[Any]] | None]:
    """Give the arrays of a file of a model's folder, or None if it has none.

    Raises:
        OSError, ValueError: it is damaged, or what the `with` block makes of it; names the file.
    """
    try:
        yield load_file(file) if file.is_file() else None
    except (SafetensorError, ValueError, KeyError, IndexError, TypeError) as error:
        raise ValueError(f"{file.name}: {error}") from error
