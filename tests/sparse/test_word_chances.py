import math
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from scipy.sparse import csr_matrix, random_array

from lexlip.sparse.word_chances import FILE, LENGTH, ROWS, LikelyWords, as_shown, load_likely, save_likely

WIDTH, SUMS = 20, 3


@pytest.fixture
def likely() -> LikelyWords:
    rng = np.random.default_rng(1)
    shapes = (WIDTH,), (WIDTH,), (WIDTH, SUMS), (SUMS, WIDTH)
    return LikelyWords(*(rng.normal(size=shape).astype(np.float16).astype(np.float32) for shape in shapes))


def vectors() -> csr_matrix:
    rng = np.random.default_rng(2)
    rows = random_array((ROWS + 6, WIDTH), density=0.4, rng=rng, dtype=np.float32).toarray()
    rows[3] = 0
    return csr_matrix(rows)


def test_chances_by_the_formula(likely: LikelyWords) -> None:
    rows = vectors()
    found = likely.chances(rows).toarray()
    for row, chances in zip(rows.toarray().astype(np.float64), found, strict=True):
        x = row * LENGTH / max(math.sqrt(sum(row**2)), 1e-12)
        for word in range(WIDTH):
            odds = likely.scale[word] * x[word] + likely.bias[word]
            odds += sum(sum(x * likely.inputs[:, r]) * likely.outputs[r, word] for r in range(SUMS))
            wanted = 1 / (1 + math.exp(-odds)) if row[word] else 0
            assert chances[word] == pytest.approx(wanted, rel=1e-4)
    longer = likely.chances(rows * 7.0).toarray()
    np.testing.assert_allclose(longer, found, rtol=1e-5)


def test_columns_in_any_order(likely: LikelyWords) -> None:
    row = vectors()[:1]
    turned = csr_matrix((row.data[::-1].copy(), row.indices[::-1].copy(), row.indptr), shape=(1, WIDTH))
    found, expected = (likely.chances(one).toarray() for one in (turned, row))
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert as_shown(turned, likely) == as_shown(row, likely)


def test_the_likeliest_are_shown_first_with_their_weights(likely: LikelyWords) -> None:
    row = vectors()[:1]
    shown, chances, weights = as_shown(row, likely), likely.chances(row).toarray()[0], row.toarray()[0]
    assert [column for column, _ in shown] == sorted(row.indices, key=lambda column: -chances[column])
    assert all(weight == weights[column] for column, weight in shown)
    heaviest = as_shown(row, None)
    assert [weight for _, weight in heaviest] == sorted(row.data.tolist(), reverse=True)
    assert as_shown(csr_matrix((1, WIDTH)), likely) == []


def test_saved_and_loaded(likely: LikelyWords, tmp_path: Path) -> None:
    assert load_likely(tmp_path, WIDTH) is None
    save_likely(tmp_path, likely)
    found = load_likely(tmp_path, WIDTH)
    assert found is not None
    for name, value in asdict(likely).items():
        np.testing.assert_array_equal(getattr(found, name), value)


def test_odds_of_any_size_make_chances(likely: LikelyWords) -> None:
    far = replace(likely, bias=np.where(np.arange(WIDTH) % 2, 1e4, -1e4).astype(np.float32))
    found = far.chances(vectors()).tocoo()
    np.testing.assert_allclose(found.data, found.col % 2, atol=1e-6)
    assert likely.chances(csr_matrix((0, WIDTH))).shape == (0, WIDTH)


def test_a_damaged_file(likely: LikelyWords, tmp_path: Path) -> None:
    save_likely(tmp_path, likely)
    with pytest.raises(ValueError, match="is not of 21 words"):
        load_likely(tmp_path, WIDTH + 1)
    tensors = load_file(tmp_path / FILE)
    save_file({name: value for name, value in tensors.items() if name != "bias"}, tmp_path / FILE)
    with pytest.raises(ValueError, match="bias"):
        load_likely(tmp_path, WIDTH)
    (tmp_path / FILE).write_bytes(b"nothing")
    with pytest.raises(ValueError, match=FILE):
        load_likely(tmp_path, WIDTH)
