from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random_array, vstack

from lexlip.bench.distractors import CHUNK, Documents, gaussian, recombined
from tests.measure.pools import make_pool

Make = Callable[..., Iterator[csr_matrix]]


def sparse(rows: int = 50, words: int = 40, seed: int = 0) -> csr_matrix:
    """Some words are in most vectors, some in hardly any; no two weights are the same."""
    rng = np.random.default_rng(seed)
    full = rng.random((rows, words)) * (rng.random((rows, words)) < np.linspace(0.02, 0.9, words))
    return csr_matrix(full.astype(np.float32))


def fits(made: np.ndarray, ones: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Whether a vector may be the mixture of each of some pairs."""
    both = (ones > 0) & (others > 0)
    lone = np.where(both, 0, ones + others)
    mean = np.where(both, (ones + others) / 2, 0)
    fitting: np.ndarray = (np.isclose(made, mean) | (np.isclose(made, lone) & ~both)).all(axis=1)
    return fitting


@pytest.mark.parametrize("sample", [50, 20, 2])
def test_a_vector_is_mixed_with_one_of_the_nearest_of_a_sample(
    sample: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lexlip.bench.distractors.NEAREST", 3)
    monkeypatch.setattr("lexlip.bench.distractors.SAMPLE", sample)
    real = sparse()
    made = vstack(list(recombined(real, 300)), format="csr")
    assert made.data.min() > 0
    full = real.toarray()
    cosines = full @ full.T / np.linalg.norm(full, axis=1) / np.linalg.norm(full, axis=1)[:, None]
    drawn = np.random.default_rng(0).permutation(50)[:sample]
    near: set[tuple[int, int]] = set()
    for row in range(50):
        others = drawn[drawn != row]
        nearest = others[np.argsort(-cosines[row, others])][: min(3, sample - 1)]
        near |= {(min(row, int(other)), max(row, int(other))) for other in nearest}
    pairs = np.array(sorted(near))
    used: set[int] = set()
    for row in made.toarray():
        fitting = np.flatnonzero(fits(row, full[pairs[:, 0]], full[pairs[:, 1]]))
        assert len(fitting)
        if len(fitting) == 1:
            used |= {int(fitting[0])}
    assert len(np.unique(pairs[sorted(used)])) > 40
    assert len(used) > 0.8 * len(pairs)


def test_few_real_vectors() -> None:
    one, two = csr_matrix([[0.5, 0, 1]]), csr_matrix([[0.5, 0, 1], [1.5, 2, 0]])
    (made,) = recombined(one, 5)
    np.testing.assert_array_equal(made.toarray(), [[0.5, 0, 1]] * 5)
    (made,) = recombined(two, 50)
    assert {tuple(row) for row in made.toarray().tolist()} == {
        (1, word, other) for word in (0, 2) for other in (0, 1)
    }


def test_statistics_are_near_those_of_the_real_vectors() -> None:
    real = sparse()
    made = vstack(list(recombined(real, 20_000)), format="csr")
    assert made.nnz / made.shape[0] == pytest.approx(real.nnz / real.shape[0], rel=0.1)
    for expected, found in ((real.sign(), made.sign()), (real, made)):
        np.testing.assert_allclose(found.mean(axis=0), expected.mean(axis=0), atol=0.12)


def test_dense_ones_have_the_mean_and_covariance_of_unit_vectors() -> None:
    rng = np.random.default_rng(0)
    real = rng.normal(size=(300, 6)) @ rng.normal(size=(6, 6)) + 2
    unit = real / np.linalg.norm(real, axis=1, keepdims=True)
    made = np.concatenate([rows.toarray() for rows in gaussian(csr_matrix(7 * real), 50_000)])
    np.testing.assert_allclose(made.mean(axis=0), unit.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(np.cov(made.T), np.cov(unit.T, ddof=0), atol=0.01)


@pytest.mark.parametrize("make", [recombined, gaussian])
def test_as_many_as_asked_for_and_the_same_for_the_same_seed(make: Make) -> None:
    real = csr_matrix(random_array((3, 8), density=0.6, rng=np.random.default_rng(1), dtype=np.float32))
    number = CHUNK + 5
    assert [rows.shape for rows in make(real, number)] == [(CHUNK, 8), (5, 8)]
    one, again, other = (
        vstack(list(make(real, number, seed=seed)), format="csr").toarray() for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()
    assert list(make(real, 0)) == []


def test_documents_are_real_ones_and_then_synthetic_ones() -> None:
    vectors = make_pool()
    ids_of_all = vectors.pool.image_ids
    documents = Documents(ids_of_all, vectors.images, CHUNK + 3, recombined, vectors.other_images, seed=5)
    for _ in range(2):
        chunks = list(documents)
        assert [len(ids) for ids, _ in chunks] == [40, CHUNK, 3]
        ids = [id for names, _ in chunks for id in names]
        assert len(documents) == len(ids) == len(set(ids))
        assert ids[:40] != ids_of_all
        rows = [ids_of_all.index(id) for id in ids[:40]]
        np.testing.assert_array_equal(chunks[0][1].toarray(), vectors.images[rows].toarray())
        assert ids[40:42] == ["synthetic/0", "synthetic/1"]
        made = vstack([rows for _, rows in chunks[1:]], format="csr")
        expected = vstack(list(recombined(vectors.images[10:], CHUNK + 3, seed=5)), format="csr")
        np.testing.assert_array_equal(made.toarray(), expected.toarray())
    assert [len(ids) for ids, _ in replace(documents, synthetic=0)] == [40]
