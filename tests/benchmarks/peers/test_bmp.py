from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from benchmarks.peers.bmp import BMP, QUERY_WEIGHT, WEIGHT, rounded
from benchmarks.truth import share_found
from tests.benchmarks.corpus.small_corpus import small_corpus
from tests.benchmarks.peers.libraries import recalls_of


def test_rounded_weights_find_nearly_what_brute_force_finds(tmp_path: Path) -> None:
    recalls = recalls_of("bmp", tmp_path)
    assert recalls[0] >= 0.95
    assert sorted(recalls, reverse=True) == recalls


@pytest.fixture
def library(tmp_path: Path) -> BMP:
    """300 documents, and 20 queries."""
    if find_spec("bmp") is None:
        pytest.skip("bmp is optional: pip install bmp")
    for place in ("index", "staged"):
        (tmp_path / place).mkdir()
    library = BMP(small_corpus(tmp_path / "corpus", dense=False), tmp_path / "index", 1)
    library.stage(tmp_path / "staged")
    library.build(tmp_path / "staged")
    library.open()
    library.set(alpha=1.0)
    return library


def test_it_finds_the_best_documents_of_rounded_weights(library: BMP) -> None:
    documents, queries = library.corpus.rows(0, 300), library.corpus.queries
    documents.data = rounded(documents.data, WEIGHT)
    shares = []
    for number in range(queries.shape[0]):
        query = csr_matrix(queries[number])
        query.data = rounded(query.data, QUERY_WEIGHT)
        scores = (documents @ query.T).toarray().ravel()
        found = library.documents(library.search_one(library.native(number), 10))
        assert len(set(found)) == len(found)
        shares.append(share_found(-np.sort(-scores)[:10], scores[found]))
    assert np.mean(shares) > 0.98  # it leaves out equal scores


def test_a_query_without_a_word_of_a_document_finds_nothing(library: BMP) -> None:
    assert library.documents(library.search_one({"none": 1.0}, 10)) == []


def test_rounded() -> None:
    assert rounded(np.array([1000, 500, 1]), 255).tolist() == [255, 128, 1]
    assert rounded(np.array([10, 5, 3]), 32).tolist() == [32, 16, 10]
    assert rounded(np.array([], np.int64), 32).tolist() == []
