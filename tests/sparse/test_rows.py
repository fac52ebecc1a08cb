from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from scipy.sparse import csr_matrix

from lexlip.sparse.rows import packed, part_of_model, unpacked

ROWS = csr_matrix(np.array([[0, 0.5, 2.0], [0, 0, 0], [1.0, 0, 0]], np.float32))


def test_rows_come_back_from_a_file(tmp_path: Path) -> None:
    save_file({**packed(ROWS, "a."), **packed(2 * ROWS, "b.")}, tmp_path / "rows.safetensors")
    with part_of_model(tmp_path / "rows.safetensors") as arrays:
        assert arrays is not None
        assert (unpacked(arrays, 3, np.float32, "a.").csr() != ROWS).nnz == 0
        assert (unpacked(arrays, 3, np.float32, "b.").csr() != 2 * ROWS).nnz == 0
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
