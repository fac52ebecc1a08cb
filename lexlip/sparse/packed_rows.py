"""Sparse rows as the arrays of files: a model's banks and queries, and what a teacher has found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file
from scipy.sparse import csr_matrix


def packed(rows: csr_matrix, prefix: str = "") -> dict[str, NDArray[Any]]:
    """Return the arrays of rows [n, V], under names that begin with `prefix`."""
    return {
        f"{prefix}weights": rows.data,
        f"{prefix}columns": rows.indices.astype(np.int32),
        f"{prefix}starts": rows.indptr,
    }


def unpacked(arrays: Mapping[str, NDArray[Any]], width: int, dtype: Any, prefix: str = "") -> csr_matrix:
    """Return the rows of some of such arrays, [n, width].

    Raises:
        KeyError, ValueError: they are missing, or do not fit together.
    """
    weights, columns, starts = (arrays[f"{prefix}{part}"] for part in ("weights", "columns", "starts"))
    parts = weights.astype(dtype, copy=False), columns.astype(np.int32, copy=False), starts
    rows = csr_matrix(parts, shape=(len(starts) - 1, width))
    rows.check_format(full_check=True)
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
