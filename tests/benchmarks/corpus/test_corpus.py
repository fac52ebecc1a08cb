from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import vstack

from benchmarks.corpus import corpus as module
from benchmarks.corpus.synthetic import SyntheticVectors
from tests.benchmarks.corpus.small_corpus import SMALL, small_blocks, small_corpus


@pytest.fixture
def blocks() -> Iterator[None]:
    """Those of `small_corpus`, for what it is compared with."""
    with small_blocks():
        yield


@pytest.mark.usefixtures("blocks")
def test_what_was_written_is_read_in_any_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = small_corpus(tmp_path / "corpus")
    vectors = SyntheticVectors(SMALL)
    (documents,) = vectors.documents(300, 8)
    assert (corpus.sizes.documents, corpus.sizes.vocabulary) == (300, 500)
    assert corpus.sizes.postings == documents.nnz
    for size in (7, 300, 1000):
        monkeypatch.setattr(module, "SLICE", size)
        slices = list(corpus.slices())
        assert [start for start, _ in slices] == list(range(0, 300, size))
        assert (vstack([rows for _, rows in slices]) != documents).nnz == 0
    assert (corpus.queries != vectors.queries(20, 12)).nnz == 0
    np.testing.assert_array_equal(corpus.dense, next(vectors.dense_documents(300)))
    np.testing.assert_array_equal(corpus.dense_queries, vectors.dense_queries(20, 300))


def test_scores_of_some_documents(tmp_path: Path) -> None:
    corpus = small_corpus(tmp_path)
    scores = (corpus.queries @ corpus.rows(0, 300).T).toarray()
    for query in range(3):
        some = np.array([299, 0, 17])
        np.testing.assert_array_equal(corpus.scores(query, some), scores[query, some])


def test_without_dense_vectors(tmp_path: Path) -> None:
    corpus = small_corpus(tmp_path, dense=False)
    assert corpus.dimensions == 0
