import numpy as np
import pytest
from scipy.sparse import csr_matrix, random_array

from lexlip.sparse import top_words as module
from lexlip.sparse.rows import unit_length
from lexlip.sparse.top_words import HEAVIEST, RIDGE, ROUND, heaviest, prune, topk
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
    for row, kept in zip(rows, naive_topk(rows, k), strict=True):
        np.testing.assert_array_equal(heaviest(row, k), kept)


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


WIDTH = 60
K = 12


def units(number: int, seed: int, density: float = 0.4) -> csr_matrix:
    rng = np.random.default_rng(seed)
    rows = random_array((number, WIDTH), density=density, rng=rng, dtype=np.float32)
    return unit_length(csr_matrix(rows))


def cost(document: np.ndarray, asked: np.ndarray, kept: list[int], ridge: float) -> tuple[float, np.ndarray]:
    """Return the smallest |asked (v - w)|² + ridge |v - w|² with v = 0 but for kept words, and v."""
    matrix = np.vstack([asked, np.sqrt(ridge) * np.eye(WIDTH)])
    fitted, *_ = np.linalg.lstsq(matrix[:, kept], matrix @ document, rcond=None)
    found = np.zeros(WIDTH)
    found[kept] = fitted
    return float(np.square(matrix @ (found - document)).sum()), found


def by_formula(document: np.ndarray, queries: np.ndarray, near: int) -> np.ndarray:
    """One document by the definition in double precision: every word is left out once in every round."""
    document, queries = document.astype(np.float64), queries.astype(np.float64)
    asked = queries[np.argsort(-(queries @ document))[:near]]
    kept = np.flatnonzero(document).tolist()
    ridge = RIDGE * (asked[:, kept] ** 2).sum() / K
    first = np.argsort(-document)[: K // HEAVIEST].tolist()
    while len(kept) > K:
        without = {
            word: cost(document, asked, [other for other in kept if other != word], ridge)[0]
            for word in kept
            if word not in first
        }
        leave = sorted(without, key=without.__getitem__)[: len(kept) - max(K, int(len(kept) * (1 - ROUND)))]
        kept = [word for word in kept if word not in leave]
    return np.maximum(cost(document, asked, kept, ridge)[1], 0)


def pruned(documents: csr_matrix, k: int, queries: csr_matrix) -> csr_matrix:
    return prune(documents, k, queries, (documents @ queries.T).toarray())


@pytest.mark.parametrize("near", [20, 10_000])
def test_by_the_formula(near: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NEAR", near)
    documents, queries = units(30, 1), units(50, 2)
    found = pruned(documents, K, queries).toarray()
    for document, row in zip(documents.toarray(), found, strict=True):
        expected = by_formula(document, queries.toarray(), min(near, 50))
        np.testing.assert_allclose(row, expected, rtol=1e-3, atol=1e-5)


def test_scores_come_closer_to_those_of_whole_documents() -> None:
    documents, queries = units(200, 3), units(600, 4, density=0.1)
    heaviest = documents.toarray()
    heaviest[heaviest < np.sort(heaviest, axis=1)[:, -K, None]] = 0
    shorter = pruned(documents, K, queries), csr_matrix(heaviest)
    whole, short, plain = ((rows @ queries.T).toarray() for rows in (documents, *shorter))
    assert np.square(short - whole).mean() < 0.8 * np.square(plain - whole).mean()


def test_short_documents_stay() -> None:
    documents = units(300, 5, density=0.05)
    assert (np.diff(documents.indptr) <= K).all()
    assert (pruned(documents, K, units(40, 6)) != documents).nnz == 0
    assert pruned(documents[:0], K, units(40, 6)).shape == (0, WIDTH)


def test_words_that_no_query_asks_for() -> None:
    documents, queries = units(3, 7).toarray(), units(40, 8).toarray()
    documents[:, ::2], queries[:, 1::2] = 0, 0
    found = pruned(unit_length(csr_matrix(documents)), 5, unit_length(csr_matrix(queries))).toarray()
    for document, row in zip(documents, found, strict=True):
        assert set(np.flatnonzero(row)) == set(np.argsort(-document)[:5])
