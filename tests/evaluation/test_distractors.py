from collections.abc import Callable, Iterator

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random_array, vstack

from lexlip.evaluation.distractors import CHUNK, gaussian, recombined

Make = Callable[..., Iterator[csr_matrix]]


def sparse(rows: int = 50, words: int = 40, seed: int = 0) -> csr_matrix:
    """Some words are in most vectors, some in hardly any; no two weights are the same."""
    random = np.random.default_rng(seed)
    full = random.random((rows, words)) * (random.random((rows, words)) < np.linspace(0.02, 0.9, words))
    return csr_matrix(full.astype(np.float32))


def test_a_word_has_the_weight_of_a_real_vector() -> None:
    real = sparse()
    made = vstack(list(recombined(real, 200)), format="csr")
    assert made.shape == (200, 40)
    assert made.data.min() > 0
    columns = real.tocsc()
    for word in range(40):
        assert set(made.tocsc()[:, word].data) <= set(columns[:, word].data)


def test_all_words_of_a_vector_come_from_two() -> None:
    real = csr_matrix(np.repeat(np.arange(1, 6), 30).reshape(5, 30))  # the weight says which vector it was
    made = vstack(list(recombined(real, 100)), format="csr").toarray()
    parents = [set(row) for row in made]
    assert {len(row) for row in parents} == {1, 2}  # one where the two are the same
    assert set().union(*parents) == {1, 2, 3, 4, 5}


def test_statistics_are_those_of_the_real_vectors() -> None:
    real = sparse()
    made = vstack(list(recombined(real, 20_000)), format="csr")
    assert made.nnz / made.shape[0] == pytest.approx(real.nnz / real.shape[0], rel=0.02)
    for power in (0, 1, 2):
        expected, found = (rows.power(power) if power else rows.sign() for rows in (real, made))
        np.testing.assert_allclose(found.mean(axis=0), expected.mean(axis=0), atol=0.02)


def test_dense_ones_have_the_mean_and_covariance_of_unit_vectors() -> None:
    random = np.random.default_rng(0)
    real = random.normal(size=(300, 6)) @ random.normal(size=(6, 6)) + 2
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
