"""Sparse rows without scipy, whose import takes longer than a search."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


@dataclass(frozen=True)
class Rows:
    """Sparse rows [n, V]; the arrays are those of `csr_matrix`, and no column is twice in a row.

    Attributes:
        data: the weights of all rows, one row after another.
        indices: their columns.
        indptr: where each row begins, [n + 1]; the last one's end is the last entry.
    """

    data: NDArray[Any]
    indices: NDArray[Any]
    indptr: NDArray[Any]
    shape: tuple[int, int]

    @classmethod
    def of(cls, rows: csr_matrix) -> Self:
        """Return the rows of a matrix; they share its arrays."""
        return cls(rows.data, rows.indices, rows.indptr, rows.shape)

    @classmethod
    def of_vector(cls, vector: NDArray[Any]) -> Self:
        """Return a vector [V] as one row."""
        columns = np.flatnonzero(vector).astype(np.int32)
        ends = np.array([0, len(columns)], np.int32)
        return cls(vector[columns], columns, ends, (1, len(vector)))

    @classmethod
    def stacked(cls, parts: Iterable[Rows | csr_matrix], width: int) -> Self:
        """Return rows [n, width] of several parts, one below another."""
        parts = list(parts)
        ends = np.cumsum([0, *(length for part in parts for length in np.diff(part.indptr))], dtype=np.int32)
        empty = np.empty(0, np.int32)
        data = np.concatenate([part.data for part in parts]) if parts else empty
        indices = np.concatenate([part.indices for part in parts]) if parts else empty
        return cls(data, indices, ends, (len(ends) - 1, width))

    def check(self) -> None:
        """Check that the arrays belong together; ValueError: they do not."""
        ends, columns = self.indptr, self.indices
        if {ends.dtype.kind, columns.dtype.kind} - {"i", "u"}:
            raise ValueError("the rows' ends, or columns, are no whole numbers")
        if ends.shape != (self.shape[0] + 1,) or ends[0] != 0 or (ends[1:] < ends[:-1]).any():
            raise ValueError(f"the ends of {self.shape[0]} rows do not ascend from 0")
        if not ends[-1] == len(columns) == len(self.data) or self.data.ndim != 1:
            raise ValueError(f"{len(columns)} columns, {len(self.data)} weights, and rows of {ends[-1]}")
        if len(columns) and not 0 <= columns.min() <= columns.max() < self.shape[1]:
            raise ValueError(f"a column is not one of {self.shape[1]}")

    def row(self, number: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the columns of a row, and their weights."""
        part = slice(int(self.indptr[number]), int(self.indptr[number + 1]))
        return self.indices[part], self.data[part]

    def csr(self) -> csr_matrix:
        """Return them as a matrix; this loads scipy."""
        from scipy.sparse import csr_matrix

        return csr_matrix((self.data, self.indices, self.indptr), shape=self.shape)
