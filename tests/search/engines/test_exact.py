import numpy as np
import pytest
from scipy.sparse import csr_matrix, random_array

from lexlip.errors import ModelError
from lexlip.search import engines
from lexlip.search.engines import (
    ExactEngine,
    LuceneEngine,
    describe,
    engine_for,
    engines_of,
    exact_engine,
    temporary_lucene_engine,
)
from lexlip.sparse.topk import topk
from tests.tiny import tiny_dense, tiny_model

N, V = 300, 80
IDS = [f"{number * 7 % N}.jpg" for number in range(N)]
WORDS = [f"w{column}" for column in range(V)]


def random_vectors(rows: int, seed: int, density: float = 0.15) -> csr_matrix:
    vectors = random_array((rows, V), density=density, rng=np.random.default_rng(seed), dtype=np.float32)
    return csr_matrix(vectors * 2)


def unit(vectors: csr_matrix) -> np.ndarray:
    dense = vectors.toarray().astype(np.float64)
    return dense / np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-12)


DOCUMENTS, QUERIES = random_vectors(N, 0), random_vectors(20, 1)


@pytest.mark.parametrize("rows", [1, 7, 256])
def test_exact_is_the_sorted_dot_product(rows: int) -> None:
    ids, scores = ExactEngine(IDS, DOCUMENTS, rows=rows).search(QUERIES, 25)
    expected = QUERIES.toarray() @ DOCUMENTS.toarray().T
    for found, found_scores, row in zip(ids, scores, expected, strict=True):
        order = np.argsort(-row, kind="stable")[:25]
        assert found == [IDS[i] for i in order]
        np.testing.assert_allclose(found_scores, row[order], rtol=1e-5)


def test_only_documents_that_share_a_term_are_found() -> None:
    documents = csr_matrix(np.array([[0, 1], [1, 0], [2, 1]], dtype=np.float32))
    queries = csr_matrix(np.array([[1, 0], [0, 0]], dtype=np.float32))
    ids, scores = ExactEngine(["a", "b", "c"], documents).search(queries, 10)
    assert ids == [["c", "b"], []]
    assert [list(row) for row in scores] == [[2, 1], []]


@pytest.mark.parametrize("full", [0.0, 1.1])  # BLAS, and the sparse product
@pytest.mark.parametrize("k", [5, N])
def test_negative_scores_are_found_and_rank_below_the_others(
    monkeypatch: pytest.MonkeyPatch, full: float, k: int
) -> None:
    monkeypatch.setattr(engines, "FULL", full)
    rng = np.random.default_rng(2)
    documents, queries = rng.normal(size=(N, 6)), rng.normal(size=(9, 6))
    documents[::3] = 0
    ids, scores = ExactEngine(IDS, csr_matrix(documents), rows=4).search(csr_matrix(queries), k)
    for found, found_scores, row in zip(ids, scores, queries @ documents.T, strict=True):
        order = [i for i in np.argsort(-row, kind="stable") if row[i] != 0][:k]
        assert found == [IDS[i] for i in order]
        np.testing.assert_allclose(found_scores, row[order])
        assert k < N or found_scores[-1] < 0


def test_documents_that_share_no_term_take_no_place() -> None:
    documents = csr_matrix(np.array([[0, 5], [1, 0], [0, 7], [-1, 0], [0, 0.0]]))
    ids, scores = ExactEngine(list("abcde"), documents).search(csr_matrix([[2.0, 0]]), 2)
    assert (ids, [list(row) for row in scores]) == ([["b", "d"]], [[2, -2]])


def test_exact_engine_with_full_vectors_orders_by_cosine(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    documents, queries = rng.normal(size=(40, 8)), rng.normal(size=(5, 8))
    cosines = queries @ (documents / np.linalg.norm(documents, axis=1, keepdims=True)).T
    with exact_engine(IDS[:40], csr_matrix(documents)) as engine:
        assert engine.is_full
        ids, _ = engine.search(csr_matrix(queries), 40)
    assert ids == [[IDS[i] for i in np.argsort(-row)] for row in cosines]


def test_exact_engine_orders_by_cosine() -> None:
    documents = csr_matrix(np.array([[3, 4], [1, 0], [0, 0]], dtype=np.float32))
    with exact_engine(["a", "b", "c"], documents) as engine:
        ids, scores = engine.search(csr_matrix(np.array([[2, 0]], dtype=np.float32)), 3)
    assert ids == [["b", "a"]]
    np.testing.assert_allclose(scores[0], [1, 0.6], rtol=1e-6)


def check(ids: list[list[str]], scores: list[np.ndarray], expected: np.ndarray, within: float) -> None:
    """Every hit has its exact score, up to quantisation, and none that is left out is clearly better."""
    for found, found_scores, row in zip(ids, scores, expected, strict=True):
        of = dict(zip(IDS, row, strict=True))
        np.testing.assert_allclose(found_scores, [of[id] for id in found], atol=within)
        left_out = [score for id, score in of.items() if id not in set(found)]
        assert max(left_out) <= of[found[-1]] + 2 * within
        assert list(found_scores) == sorted(found_scores, reverse=True)


def test_lucene_agrees_with_cosines_within_quantisation() -> None:
    with temporary_lucene_engine(IDS, DOCUMENTS, WORDS) as engine:
        ids, scores = engine.search(QUERIES, 25)
        check(ids, scores, unit(QUERIES) @ unit(DOCUMENTS).T, within=0.002)
        with exact_engine(IDS, DOCUMENTS) as exact:
            plain, _ = exact.search(csr_matrix(unit(QUERIES)), 25)
    same = [len(set(a) & set(b)) / 25 for a, b in zip(ids, plain, strict=True)]
    assert np.mean(same) > 0.99


def test_lucene_with_the_paper_s_scale() -> None:
    with temporary_lucene_engine(IDS, DOCUMENTS, WORDS, scheme="paper") as engine:
        ids, scores = engine.search(QUERIES, 25)
    expected = np.floor(QUERIES.toarray() * 100) @ np.floor(DOCUMENTS.toarray() * 100).T / 1e4
    check(ids, scores, expected, within=1e-6)


def test_lucene_gives_whole_numbers_in_its_unit() -> None:
    with temporary_lucene_engine(IDS, DOCUMENTS, WORDS) as engine:
        assert isinstance(engine, LuceneEngine)
        _, scores = engine.search(QUERIES, 5)
        exact = [row * engine.unit for row in scores]
    assert all(np.allclose(row, np.rint(row), atol=1e-3) for row in exact)
    assert engine.unit == 1_000_000


def test_queries_keep_their_heaviest_terms() -> None:
    with temporary_lucene_engine(IDS, DOCUMENTS, WORDS, query_topk=3) as engine:
        assert np.diff(engine.quantized(QUERIES).indptr).max() == 3
        cut, _ = engine.search(QUERIES, 10)
    with temporary_lucene_engine(IDS, DOCUMENTS, WORDS) as engine:
        assert engine.search(topk(QUERIES, 3), 10)[0] == cut


def test_threads_and_empty_queries() -> None:
    queries = csr_matrix((3, V), dtype=np.float32)
    with temporary_lucene_engine(IDS, DOCUMENTS, WORDS, threads=2) as engine:
        assert engine.search(queries, 5)[0] == [[], [], []]
        ids, _ = engine.search(QUERIES, 5)
    with temporary_lucene_engine(IDS, DOCUMENTS, WORDS) as engine:
        assert engine.search(QUERIES, 5)[0] == ids


def test_exact_engine_orders_by_dot_products_if_so_told() -> None:
    documents = csr_matrix(np.array([[3, 4], [2, 0], [-9, 0]], dtype=np.float32))
    with exact_engine(["a", "b", "c"], documents, metric="dot") as engine:
        ids, scores = engine.search(csr_matrix(np.array([[2, 0]], dtype=np.float32)), 3)
    assert ids == [["a", "b", "c"]]
    np.testing.assert_allclose(scores[0], [6, 4, -18])


def test_engines_by_model() -> None:
    assert engines_of(tiny_model()) == ("lucene", "exact")
    assert engines_of(tiny_dense()) == ("flat", "hnsw", "exact")
    assert engine_for(tiny_model())[0] == "lucene"
    assert engine_for(tiny_dense())[0] == "flat"
    assert engine_for(tiny_dense(), "hnsw")[0] == "hnsw"


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_engines_of_a_dense_model_compare_by_its_metric(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_dense()
    monkeypatch.setattr(type(model), "metric", metric)
    random = np.random.default_rng(0)
    documents, queries = (csr_matrix(random.normal(size=(rows, 16)).astype(np.float32)) for rows in (200, 9))
    kept = documents.toarray() if metric == "dot" else unit(documents)
    best = np.argsort(-(queries.toarray() @ kept.T), axis=1)[:, :10]
    for name in engines_of(model):
        _, engine_of = engine_for(model, name)
        with engine_of(IDS[:200], documents) as engine:
            ids, _ = engine.search(queries, 10)
        shared = [len({IDS[i] for i in row} & set(found)) / 10 for row, found in zip(best, ids, strict=True)]
        assert shared == [1] * 9 if name != "hnsw" else np.mean(shared) > 0.9


def test_engines_that_do_not_fit() -> None:
    for name in ("flat", "hnsw"):
        with pytest.raises(ModelError) as caught:
            engine_for(tiny_model(), name)  # type: ignore[arg-type]
        assert str(caught.value) == (
            f"the lexlip model 'untrained' has words, so the {name} engine cannot search its vectors;"
            " there are lucene, exact"
        )
    with pytest.raises(ModelError) as caught:
        engine_for(tiny_dense(), "lucene")
    assert str(caught.value) == (
        "the dense model 'cls' has no words, so the lucene engine cannot search its vectors;"
        " there are flat, hnsw, exact"
    )
    with pytest.raises(ModelError, match="'cls' has no words; leave out --query-topk"):
        engine_for(tiny_dense(), query_topk=3)


def test_description() -> None:
    assert describe("unit") == {"scheme": "unit", "scale": 1000}
    assert describe("paper") == {"scheme": "paper", "scale": 100}


@pytest.mark.parametrize("kept", [None, 3])
def test_exact_cosines_are_of_what_a_query_keeps(kept: int | None) -> None:
    with exact_engine(IDS, DOCUMENTS, kept) as engine:
        ids, scores = engine.search(QUERIES, 5)
    documents, queries = DOCUMENTS.toarray(), topk(QUERIES, kept).toarray()
    for query, found, values in zip(queries, ids, scores, strict=True):
        rows = documents[[list(IDS).index(id) for id in found]]
        cosines = rows @ query / np.linalg.norm(rows, axis=1) / np.linalg.norm(query)
        np.testing.assert_allclose(values, cosines, rtol=1e-5)
