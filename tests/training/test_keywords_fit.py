import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from lexlip.sparse.balance import unit_length
from lexlip.sparse.query_topk import SENTENCE_TOPK
from lexlip.training.keywords_fit import DOUBT, RIDGE, fit_keywords

WORDS = ["dog", "dogs", "cat", "boat", *(f"word{number}" for number in range(26))]
V, N = len(WORDS), 400


@pytest.fixture(scope="module")
def documents() -> csr_matrix:
    rng = np.random.default_rng(0)
    return unit_length(csr_matrix(rng.random((N, V)) * (rng.random((N, V)) < 0.3)))


def said_of(rows_of: dict[str, list[int]]) -> csr_matrix:
    said = np.zeros((N, V))
    for word, rows in rows_of.items():
        said[rows, WORDS.index(word)] = 1
    return csr_matrix(said)


def plain_query(documents: np.ndarray, rows: list[int], own: np.ndarray) -> np.ndarray:
    """The constrained least squares by a general minimiser, mixed with the word's own weights."""
    more = documents[rows].mean(axis=0) - documents.mean(axis=0)
    within = np.cov(documents, rowvar=False, bias=True) + RIDGE * np.eye(V)
    least = minimize(
        lambda q: (q @ within @ q / 2 - q @ more, within @ q - more),
        np.zeros(V),
        jac=True,
        bounds=[(0, None)] * V,
        options={"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-10},
    )
    share = len(rows) / (len(rows) + DOUBT)
    mixed = share * least.x / np.linalg.norm(least.x) + (1 - share) * own
    mixed[np.argsort(-mixed, kind="stable")[SENTENCE_TOPK:]] = 0
    return mixed / np.linalg.norm(mixed)


def test_queries_are_constrained_least_squares(documents: csr_matrix) -> None:
    rng = np.random.default_rng(1)
    rows = {"dog": list(range(40)), "dogs": list(range(30, 70)), "cat": [3, 70, 71], "boat": list(range(200))}
    own = unit_length(csr_matrix(np.eye(V) + 0.3 * rng.random((V, V)) * (rng.random((V, V)) < 0.2)))
    found = fit_keywords(documents, said_of(rows), own * 7.0, WORDS).toarray()
    both = list(range(70))  # in the singular or the plural
    for word, right in {"dog": both, "dogs": both, "cat": rows["cat"], "boat": rows["boat"]}.items():
        column = WORDS.index(word)
        expected = plain_query(documents.toarray().astype(float), right, own[column].toarray()[0])
        np.testing.assert_allclose(found[column], expected, atol=2e-3)
    nobody = WORDS.index("word7")  # its own weights alone
    np.testing.assert_allclose(found[nobody], own[nobody].toarray()[0], atol=1e-6)


def test_a_word_finds_the_photos_of_which_it_is_said() -> None:
    """Photos of one kind share three words, none of which is the word itself."""
    rng = np.random.default_rng(2)
    rows = rng.random((N, V)) * (rng.random((N, V)) < 0.2)
    kind = np.arange(N) % 4 == 0
    rows[np.ix_(kind, [10, 11, 12])] += 1
    rows[:, 0] = 0
    documents = unit_length(csr_matrix(rows))
    said = said_of({"dog": np.flatnonzero(kind)[::3].tolist()})
    query = fit_keywords(documents, said, csr_matrix(np.eye(V)), WORDS)[0]
    found = np.argsort(-(documents @ query.T).toarray()[:, 0])[: kind.sum()]
    assert kind[found].mean() > 0.9
    assert query[0, 0] > 0  # the word's own weight, of those photos that have it


def test_queries_are_unit_vectors_of_few_words(documents: csr_matrix) -> None:
    found = fit_keywords(documents, said_of({"cat": [1, 2, 3]}), csr_matrix(np.eye(V)), WORDS)
    assert found.dtype == np.float32
    assert np.diff(found.indptr).max() <= SENTENCE_TOPK
    assert (found.data > 0).all()
    np.testing.assert_allclose(np.linalg.norm(found.toarray(), axis=1), 1, rtol=1e-6)


def test_a_word_without_weight_and_photos_has_no_query(documents: csr_matrix) -> None:
    found = fit_keywords(documents, csr_matrix((N, V)), csr_matrix((V, V)), WORDS)
    assert found.nnz == 0
