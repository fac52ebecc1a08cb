from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix, vstack

from benchmarks.corpus import synthetic as module
from benchmarks.corpus.synthetic import BLOCK, DENSE, SHAPES, Shape, SyntheticVectors
from lexlip.sparse.quantize import quantize
from lexlip.sparse.top_words import topk
from tests.benchmarks.corpus.small_corpus import SMALL, same


def documents(vectors: SyntheticVectors, number: int, kept: int | None = 8, chunk: int = 10**6) -> csr_matrix:
    return vstack(list(vectors.documents(number, kept, chunk)), format="csr")


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that few photos fill more than one."""
    monkeypatch.setattr(module, "BLOCK", 1_000)


@pytest.mark.usefixtures("small_blocks")
def test_the_same_seed_gives_the_same_vectors_and_another_one_others() -> None:
    first, again, other = (SyntheticVectors(SMALL, seed) for seed in (1, 1, 2))
    assert same(documents(first, 100), documents(again, 100))
    assert same(first.queries(20), again.queries(20))
    np.testing.assert_array_equal(first.dense_queries(20), again.dense_queries(20))
    assert not same(documents(first, 100), documents(other, 100))
    assert not same(first.queries(20), other.queries(20))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("chunk", [300, 1_000, 1_100, 2_000])
def test_chunks_do_not_matter(chunk: int) -> None:
    vectors, number = SyntheticVectors(SMALL), 1_250
    whole = documents(vectors, number)
    chunks = list(vectors.documents(number, 8, chunk))
    sizes = [rows.shape[0] for rows in chunks]
    assert sizes == [chunk] * (number // chunk) + [number % chunk] * (number % chunk > 0)
    assert same(vstack(chunks, format="csr"), whole)
    dense = list(vectors.dense_documents(number, chunk))
    assert [len(rows) for rows in dense] == sizes
    np.testing.assert_array_equal(np.concatenate(dense), next(vectors.dense_documents(number, number)))


@pytest.mark.usefixtures("small_blocks")
def test_a_smaller_corpus_is_the_beginning_of_a_larger_one() -> None:
    vectors = SyntheticVectors(SMALL)
    assert same(documents(vectors, 1_010)[:300], documents(vectors, 300))


def test_vectors_are_quantised_as_the_project_does_it() -> None:
    vectors = SyntheticVectors(SMALL)
    whole = vectors.block(0)
    assert same(documents(vectors, 500, 8), quantize(topk(whole, 8))[:500])
    assert same(documents(vectors, 500, None), quantize(whole)[:500])
    lengths = np.sqrt(documents(vectors, 500).power(2).sum(axis=1))
    np.testing.assert_allclose(lengths, 1000, rtol=0.01)
    assert same(vectors.queries(50, 12), quantize(topk(vectors.captions(50), 12)))


@pytest.mark.parametrize("shape", [SMALL, replace(SMALL, terms=(60, 20)), *SHAPES.values()])
def test_terms_are_as_many_as_asked(shape: Shape) -> None:
    vectors = SyntheticVectors(shape)
    lengths, of_captions = np.diff(vectors.block(0).indptr), np.diff(vectors.captions(2_000).indptr)
    for found, wanted in ((lengths, shape.terms), (of_captions, shape.query_terms)):
        assert found.mean() == pytest.approx(wanted[0], rel=0.05)
        assert found.std() == pytest.approx(wanted[1], rel=0.1)
    assert np.diff(vectors.queries(200, 12).indptr).max() == 12


def test_a_wider_spread_makes_frequent_terms_more_frequent() -> None:
    shares = []
    for spread in (0.4, 0.7, 1.0):
        block = SyntheticVectors(replace(SMALL, spread=spread)).block(0)
        shares.append(np.bincount(block.indices, minlength=500).max() / BLOCK)
    assert shares == sorted(shares)
    assert shares[0] < 0.8 * shares[2]


def test_captions_find_their_photos_both_ways() -> None:
    vectors = SyntheticVectors(replace(SMALL, vocabulary=2_000, blur=0.95), seed=3)
    photos, queries = documents(vectors, 1_000, 32), vectors.queries(100, 12, corpus=1_000)
    dense, dense_queries = next(vectors.dense_documents(1_000)), vectors.dense_queries(100, corpus=1_000)
    assert dense.shape == (1_000, DENSE)
    np.testing.assert_allclose(np.linalg.norm(dense, axis=1), 1, rtol=1e-5)
    sparse_scores, dense_scores = (queries @ photos.T).toarray(), dense_queries @ dense.T
    best = dense_scores.argmax(axis=1)  # the caption's own photo, nearly always
    ranks = (sparse_scores > sparse_scores[np.arange(100), best][:, None]).sum(axis=1)
    assert np.median(ranks) < 10


def test_terms_of_a_topic_occur_together() -> None:
    vectors = SyntheticVectors(SMALL)
    photos = documents(vectors, 4_000, 8).astype(bool).astype(int)
    shuffled = np.random.default_rng(0).permutation(photos.indices)  # the same terms, in no company
    apart = csr_matrix((np.ones(len(shuffled)), shuffled, photos.indptr), shape=photos.shape)
    assert ((photos[:200] @ photos.T) >= 5).nnz > 3 * ((apart[:200] @ apart.T) >= 5).nnz


def test_a_fitted_shape_is_about_as_hard_to_search_as_the_real_vectors_were() -> None:
    """Of 28,549 photos, 300 captions and ten hits; a block is 64 documents in the order of their terms."""
    vectors = SyntheticVectors(SHAPES["mini"])
    photos, queries = documents(vectors, 28_549, 32), vectors.queries(300, 12)
    scores, shared = (queries @ photos.T).toarray(), (queries.sign() @ photos.sign().T).toarray()
    tenth = -np.partition(-scores, 9, axis=1)[:, 9]
    bounds = queries @ photos.max(axis=0).toarray().ravel()
    terms, less = (np.split(of, photos.indptr[1:-1]) for of in (photos.indices, -photos.data))
    heaviest = [
        of_one[np.argsort(its, kind="stable")[:3]].tolist() for of_one, its in zip(terms, less, strict=True)
    ]
    ordered = photos[sorted(range(len(heaviest)), key=heaviest.__getitem__)]
    starts = range(0, ordered.shape[0], 64)
    blocks = vstack([csr_matrix(ordered[start : start + 64].max(axis=0)) for start in starts], format="csr")
    touched = shared.sum() / shared.size  # postings of a query's terms, of all documents
    assert touched == pytest.approx(1.36, rel=0.2)
    assert (shared >= 3).mean() == pytest.approx(0.198, rel=0.2)
    assert (tenth / bounds).mean() == pytest.approx(0.41, rel=0.2)
    assert tenth.mean() / 1e6 == pytest.approx(0.559, rel=0.2)
    reach = (queries @ blocks.T).toarray() >= np.maximum(tenth, 1)[:, None]
    assert reach.mean() == pytest.approx(0.423, rel=0.2)


def test_a_vocabulary_that_is_too_small() -> None:
    with pytest.raises(ValueError, match="a vocabulary of 50 terms is too small"):
        SyntheticVectors(replace(SMALL, vocabulary=50))
