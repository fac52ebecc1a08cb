import numpy as np
import pytest
from scipy.sparse import csr_matrix

from lexlip.errors import ModelError
from lexlip.search.engines import exact as module
from lexlip.search.engines.exact import ExactEngine, engine_for, engines_of, exact_engine
from lexlip.search.engines.lucene import LuceneEngine
from tests.search.engines.vectors import DOCUMENTS, IDS, QUERIES, N, unit
from tests.tiny import tiny_dense, tiny_model


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
    monkeypatch.setattr(module, "FULL", full)
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


@pytest.mark.parametrize("full", [False, True])
def test_exact_cosines(full: bool) -> None:
    rng = np.random.default_rng(3)
    documents = csr_matrix(rng.normal(size=(N, 8))) if full else DOCUMENTS
    queries = csr_matrix(rng.normal(size=(5, 8))) if full else QUERIES
    with exact_engine(IDS, documents) as engine:
        assert engine.is_full == full
        ids, scores = engine.search(queries, N)
    for found, points, row in zip(ids, scores, unit(queries) @ unit(documents).T, strict=True):
        order = [i for i in np.argsort(-row, kind="stable") if row[i] != 0]
        np.testing.assert_allclose(points, row[order], rtol=1e-5, atol=1e-6)
        of = dict(zip(IDS, row, strict=True))
        np.testing.assert_allclose([of[id] for id in found], row[order], rtol=1e-5, atol=1e-6)


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
    rng = np.random.default_rng(0)
    documents, queries = (csr_matrix(rng.normal(size=(rows, 16)).astype(np.float32)) for rows in (200, 9))
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
            " use one of lucene, exact"
        )
    with pytest.raises(ModelError) as caught:
        engine_for(tiny_dense(), "lucene")
    assert str(caught.value) == (
        "the dense model 'cls' has no words, so the lucene engine cannot search its vectors;"
        " use one of flat, hnsw, exact"
    )


def test_options_reach_the_engine_of_words() -> None:
    model = tiny_model()
    vectors = model.encode_text(["two dogs play in the snow", "a man rides a bike"])
    _, engine_of = engine_for(model, scheme="paper")
    with engine_of(["a", "b"], vectors) as engine:
        assert isinstance(engine, LuceneEngine)
        assert engine.scheme == "paper"
        ids, _ = engine.search(vectors[:1], 2)
    assert ids[0][0] == "a"
