import numpy as np
import pytest
from scipy.sparse import csr_matrix, random_array

from anserini_bridge.sparse_rows import Rows
from lexlip.errors import ConfigError, DataError
from lexlip.sparse.quantize import SCHEMES, Scheme, quantize, quantize_queries, query_scheme, scale_of
from lexlip.sparse.top_words import heaviest, topk
from tests.reference.ranking import exact_paper, naive_unit
from tests.search.engines.vectors import unit


def random_vectors(rows: int, terms: int, width: int = 300, seed: int = 0) -> csr_matrix:
    """Vectors like a model's: about so many terms a row, weights between 0 and 2."""
    rng = np.random.default_rng(seed)
    return csr_matrix(random_array((rows, width), density=terms / width, rng=rng, dtype=np.float32) * 2)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("weight", [np.nan, np.inf, -np.inf, 1e300])
def test_weights_that_no_whole_number_stands_for(scheme: str, weight: float) -> None:
    with pytest.raises(DataError, match=r"^a weight is not a finite number, or too large"):
        quantize(csr_matrix([[1.0, weight], [1.0, 0.0]]), scheme)  # type: ignore[arg-type]


def test_the_largest_whole_numbers() -> None:
    assert quantize(csr_matrix([[2.1e7]]), "paper").toarray().tolist() == [[2_100_000_250]]
    assert quantize(csr_matrix([[1e100, 1e100]]), "unit").toarray().tolist() == [[707, 707]]


def test_paper_floors_exactly() -> None:
    decimals = [f"{hundredths / 100:.2f}" for hundredths in range(1, 1500)]
    rows = csr_matrix(np.array([[float(d) for d in decimals]], dtype=np.float32))
    assert quantize(rows, "paper").toarray()[0].tolist() == [exact_paper(d) for d in decimals]
    assert quantize(csr_matrix([[0.29]]), "paper").toarray().tolist() == [[29]]


@pytest.mark.parametrize("weight", ["0.2899", "0.28999", "0.0099", "0.01", "4.5699", "4.57"])
def test_paper_never_rounds_up(weight: str) -> None:
    row = csr_matrix(np.array([[float(weight), 1]], dtype=np.float32))
    assert quantize(row, "paper")[0, 0] == exact_paper(weight)


def test_unit_is_the_rounded_unit_vector() -> None:
    rows = random_vectors(40, 12).toarray()
    rows[3] = 0
    found = quantize(csr_matrix(rows))
    np.testing.assert_array_equal(found.toarray(), naive_unit(rows))
    assert np.issubdtype(found.dtype, np.integer)
    lengths = np.sqrt((found.toarray().astype(float) ** 2).sum(axis=1))
    np.testing.assert_allclose(np.delete(lengths, 3), 1000, atol=3)


def test_balanced_keeps_lengths() -> None:
    rows = random_vectors(40, 12)
    expected = np.rint(1000 * rows.toarray().astype(np.float64))
    np.testing.assert_array_equal(quantize(rows, "balanced").toarray(), expected)


def test_dot_keeps_the_lengths_of_documents_but_not_of_queries() -> None:
    rows = random_vectors(40, 12)
    expected = np.rint(1000 * rows.toarray().astype(np.float64))
    np.testing.assert_array_equal(quantize(rows, "dot").toarray(), expected)
    queries = quantize_queries(rows * np.float32(7), "dot").csr().toarray()
    np.testing.assert_array_equal(queries, naive_unit(rows.toarray()))


def test_unit_is_blind_to_length() -> None:
    vectors = random_vectors(10, 12)
    assert (quantize(vectors) != quantize(vectors * np.float32(8))).nnz == 0


@pytest.mark.parametrize("scheme", SCHEMES)
def test_rows_without_terms(scheme) -> None:
    stored_zeros = csr_matrix((np.zeros(2, dtype=np.float32), [0, 2], [0, 2, 2]), shape=(2, 3))
    for empty in (stored_zeros, csr_matrix((4, 3), dtype=np.float32), csr_matrix((0, 3), dtype=np.float32)):
        found = quantize(empty, scheme)
        assert found.shape == empty.shape
        assert found.nnz == 0


def test_impacts_of_zero_are_dropped() -> None:
    assert quantize(csr_matrix([[0.009, 0.5]]), "paper").nnz == 1
    assert quantize(csr_matrix([[0.0004, 1.0]]), "unit").nnz == 1


def test_unknown_scheme() -> None:
    with pytest.raises(ConfigError, match="quantization is 'papr'; it must be one of balanced, unit, paper"):
        quantize(csr_matrix((1, 1)), "papr")  # type: ignore[arg-type]


def ranking_kept(documents: csr_matrix, queries: csr_matrix, k: int = 10) -> float:
    """Share of the k best by cosine that are among the k best by impacts, averaged over the queries."""

    exact = unit(queries) @ unit(documents).T
    whole = (quantize(queries).astype(np.int64) @ quantize(documents).astype(np.int64).T).toarray()
    np.testing.assert_allclose(whole / scale_of("unit") ** 2, exact, atol=5e-3)
    best = [np.argsort(-scores, axis=1, kind="stable")[:, :k] for scores in (exact, whole)]
    return float(np.mean([len(set(a) & set(b)) / k for a, b in zip(*best, strict=True)]))


def test_ranking_survives_the_unit_scheme() -> None:
    documents, queries = random_vectors(2000, 32), random_vectors(100, 10, seed=1)
    assert ranking_kept(documents, queries) > 0.98


def test_ranking_of_real_vectors_survives(shared) -> None:
    from lexlip.data import open_source
    from lexlip.models.lexlip import LexLIP
    from lexlip.models.model_folder import PACKAGED
    from lexlip.queries.photo_vectors import PhotoVectors

    if not (PACKAGED / "mini" / "config.json").exists():
        pytest.skip("no model is packaged")
    model = LexLIP.from_pretrained("mini")
    source = open_source(shared / "flickr8k" / "val-0000.tar")
    source.items = source.items[:60]
    [[_, documents]] = list(PhotoVectors(model, source, batch=60, workers=0))
    queries = model.encode_text([item.captions[0] for item in source.items])
    assert ranking_kept(documents, queries, k=5) > 0.98


@pytest.mark.parametrize("scheme", SCHEMES)
def test_queries_are_quantised_as_rows_without_negative_entries(scheme: Scheme) -> None:
    rng = np.random.default_rng(5)
    dense = np.where(rng.random((40, 30)) < 0.4, rng.normal(size=(40, 30)), 0).astype(np.float32)
    dense[3] = 0
    expected = quantize(topk(csr_matrix(dense), None), query_scheme(scheme))
    for queries in (csr_matrix(dense), Rows.of(csr_matrix(dense)), csr_matrix(dense[:, ::-1])[:, ::-1]):
        found = quantize_queries(queries, scheme)
        found.check()
        assert (found.csr() != expected).nnz == 0
        assert found.data.dtype == found.indices.dtype == found.indptr.dtype == np.int32


@pytest.mark.parametrize("weight", [np.nan, np.inf])
def test_queries_without_a_number_are_refused(weight: float) -> None:
    query = Rows.of_vector(heaviest(np.array([1, weight, 0, -1], np.float32), None))
    with pytest.raises(DataError, match="finite"):
        quantize_queries(query, "unit")
