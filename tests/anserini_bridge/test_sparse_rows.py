"""Rows without scipy are those of scipy."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from bridge_corpus import random_vectors
from scipy.sparse import csr_matrix, vstack

from anserini_bridge.sparse_rows import Rows


def test_there_and_back() -> None:
    matrix = random_vectors(20, 30, 0.2, 9, seed=0)
    rows = Rows.of(matrix)
    assert (rows.csr() != matrix).nnz == 0
    assert rows.shape == matrix.shape
    for number, row in enumerate(matrix):
        columns, weights = rows.row(number)
        assert (columns.tolist(), weights.tolist()) == (row.indices.tolist(), row.data.tolist())
    rows.check()


def test_a_vector_is_one_row() -> None:
    vector = np.array([0, 2, 0, 1, 0], np.float32)
    row = Rows.of_vector(vector)
    assert row.csr().toarray().tolist() == [vector.tolist()]
    assert (row.data.dtype, row.indices.dtype, row.indptr.dtype) == (np.float32, np.int32, np.int32)
    assert Rows.of_vector(np.zeros(5)).csr().nnz == 0


def test_one_below_another() -> None:
    matrix = random_vectors(9, 30, 0.3, 9, seed=1)
    parts = [Rows.of(matrix[:4]), matrix[4:5], Rows.of_vector(np.zeros(30, np.int32)), matrix[5:]]
    expected = vstack([matrix[:4], matrix[4:5], csr_matrix((1, 30)), matrix[5:]])
    found = Rows.stacked(parts, 30)
    found.check()
    assert (found.csr() != expected).nnz == 0
    assert Rows.stacked([], 30).csr().shape == (0, 30)


@pytest.mark.parametrize(
    "changed",
    [
        {"indptr": np.array([0, 3, 2, 4])},  # descends
        {"indptr": np.array([1, 2, 3, 4])},  # begins late
        {"indptr": np.array([0, 2, 3, 9])},  # ends behind the weights
        {"indptr": np.array([0, 2, 4])},  # of two rows
        {"indptr": np.array([0.0, 2.0, 3.0, 4.0])},
        {"indptr": np.array([], np.int32)},
        {"indices": np.array([0, 2, 1, 4])},
        {"indices": np.array([0, -1, 1, 3])},
        {"indices": np.array([0, 2.5, 1, 3])},
        {"indices": np.array([0, 2, 1])},
        {"data": np.array([3, 2], np.int32)},
        {"data": np.ones((4, 1), np.int32)},
        {"shape": (3, 3)},
        {"shape": (4, 4)},
    ],
)
def test_arrays_that_do_not_belong_together(changed: dict[str, Any]) -> None:
    rows = Rows(np.array([3, 2, 5, 1]), np.array([0, 2, 1, 3]), np.array([0, 2, 3, 4]), (3, 4))
    rows.check()
    with pytest.raises(ValueError, match=r"rows|columns|column"):
        replace(rows, **changed).check()
