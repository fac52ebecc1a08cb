import numpy as np
import pytest
from scipy.sparse import csr_matrix, random_array

from lexlip.sparse import pruning
from lexlip.sparse.balance import unit_length
from lexlip.sparse.pruning import HEAVIEST, RIDGE, ROUND, prune

WIDTH, K = 80, 12


def units(number: int, seed: int, density: float = 0.4) -> csr_matrix:
    rng = np.random.default_rng(seed)
    return unit_length(csr_matrix(random_array((number, WIDTH), density=density, rng=rng, dtype=np.float32)))


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


@pytest.mark.parametrize("near", [20, 10_000])
def test_by_the_formula(near: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "NEAR", near)
    documents, queries = units(30, 1), units(50, 2)
    found = pruned(documents, K, queries).toarray()
    for document, row in zip(documents.toarray(), found, strict=True):
        expected = by_formula(document, queries.toarray(), min(near, 50))
        np.testing.assert_allclose(row, expected, rtol=1e-3, atol=1e-5)


def pruned(documents: csr_matrix, k: int, queries: csr_matrix) -> csr_matrix:
    return prune(documents, k, queries, (documents @ queries.T).toarray())


def test_scores_come_closer_to_those_of_whole_documents() -> None:
    documents, queries = units(200, 3), units(600, 4, density=0.1)
    heaviest = prune_by_weight(documents)
    whole, short, plain = (
        (rows @ queries.T).toarray() for rows in (documents, pruned(documents, K, queries), heaviest)
    )
    assert np.square(short - whole).mean() < 0.8 * np.square(plain - whole).mean()


def prune_by_weight(documents: csr_matrix) -> csr_matrix:
    rows = documents.toarray()
    rows[rows < np.sort(rows, axis=1)[:, -K, None]] = 0
    return csr_matrix(rows)


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


def test_a_document_does_not_depend_on_the_others() -> None:
    documents, queries = units(600, 9), units(500, 10)
    together = pruned(documents, K, queries)
    for number in (0, 255, 256, 599):
        assert (pruned(documents[number], K, queries) != together[number]).nnz == 0
