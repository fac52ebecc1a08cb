from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from scipy.sparse import csr_matrix, random_array

from lexlip.sparse.rows import packed, part_of_model, topk, unpacked
from tests.reference.ranking import naive_topk


def random_rows(few_values: bool) -> np.ndarray:
    rows = random_array((30, 40), density=0.3, rng=np.random.default_rng(0)).toarray().astype(np.float32)
    rows[[3, 29]] = 0
    return np.ceil(rows * 4) if few_values else rows


@pytest.mark.parametrize("few_values", [False, True], ids=["distinct", "with ties"])
@pytest.mark.parametrize("k", [1, 2, 5, 8, 40, 1000])
def test_topk(few_values: bool, k: int) -> None:
    rows = random_rows(few_values)
    found = topk(csr_matrix(rows), k)
    np.testing.assert_array_equal(found.toarray(), naive_topk(rows, k))
    assert found.dtype == np.float32
    assert np.diff(found.indptr).max() <= k
    assert found.has_sorted_indices


def test_the_order_of_entries_does_not_matter() -> None:
    sorted_entries = csr_matrix(np.array([[1.0, 2, 2, 2, 1]]))
    shuffled = csr_matrix(
        (sorted_entries.data[::-1].copy(), sorted_entries.indices[::-1].copy(), sorted_entries.indptr)
    )
    for entries in (shuffled, sorted_entries):
        assert topk(entries, 2).toarray().tolist() == [[0, 2, 2, 0, 0]]


def test_none_keeps_every_positive_entry() -> None:
    rows = csr_matrix(np.array([[0.0, -1, 3], [-2, -1, 0]]))
    assert topk(rows, None).toarray().tolist() == [[0, 0, 3], [0, 0, 0]]
    assert topk(rows, 5).toarray().tolist() == [[0, 0, 3], [0, 0, 0]]
    assert topk(rows, None).nnz == 1


def test_the_argument_stays_as_it_is() -> None:
    rows = csr_matrix(np.array([[1.0, -1, 3]]))
    topk(rows, 1)
    assert rows.toarray().tolist() == [[1, -1, 3]]


def test_no_rows() -> None:
    assert topk(csr_matrix((0, 7)), 3).shape == (0, 7)


def test_k_below_one() -> None:
    with pytest.raises(ValueError, match="top-K must be at least 1, not 0"):
        topk(csr_matrix((2, 7)), 0)


ROWS = csr_matrix(np.array([[0, 0.5, 2.0], [0, 0, 0], [1.0, 0, 0]], np.float32))


def test_rows_come_back_from_a_file(tmp_path: Path) -> None:
    save_file({**packed(ROWS, "a."), **packed(2 * ROWS, "b.")}, tmp_path / "rows.safetensors")
    with part_of_model(tmp_path / "rows.safetensors") as arrays:
        assert arrays is not None
        assert (unpacked(arrays, 3, np.float32, "a.") != ROWS).nnz == 0
        assert (unpacked(arrays, 3, np.float32, "b.") != 2 * ROWS).nnz == 0
    with part_of_model(tmp_path / "none.safetensors") as arrays:
        assert arrays is None


@pytest.mark.parametrize(
    "change", [{"columns": np.array([1, 2, 3], np.int32)}, {"starts": np.array([0, 9], np.int32)}]
)
def test_what_does_not_fit_together_names_the_file(change: dict[str, np.ndarray], tmp_path: Path) -> None:
    save_file({**packed(ROWS), **change}, tmp_path / "rows.safetensors")
    read = part_of_model(tmp_path / "rows.safetensors")
    with pytest.raises(ValueError, match=r"^rows\.safetensors: "), read as arrays:
        unpacked(arrays or {}, 3, np.float32)
