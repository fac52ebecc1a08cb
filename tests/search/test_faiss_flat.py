import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from lexlip.errors import ConfigError
from lexlip.search.faiss_flat import FaissFlat

N, D = 300, 12
IDS = [f"{number}.jpg" for number in range(N)]


def random_vectors(rows: int, seed: int) -> csr_matrix:
    return csr_matrix(np.random.default_rng(seed).normal(size=(rows, D)).astype(np.float32))


DOCUMENTS, QUERIES = random_vectors(N, 0), random_vectors(30, 1)


@pytest.fixture
def engine() -> FaissFlat:
    pytest.importorskip("faiss", reason="Faiss is optional: pip install faiss-cpu")
    engine = FaissFlat(D)
    engine.add(IDS[:200], DOCUMENTS[:200])
    engine.add(IDS[200:], DOCUMENTS[200:])
    return engine


def cosines() -> np.ndarray:
    full = DOCUMENTS.toarray(), QUERIES.toarray()
    documents, queries = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in full)
    return queries @ documents.T


@pytest.mark.parametrize("batch", [1, 7, 30, 256])
def test_scores_are_cosines_whatever_the_batch(engine: FaissFlat, batch: int) -> None:
    assert len(engine) == N
    ids, scores = engine.shared(1, batch).search(QUERIES, 10)
    for found, found_scores, row in zip(ids, scores, cosines(), strict=True):
        order = np.argsort(-row)[:10]
        assert found == [IDS[i] for i in order]
        np.testing.assert_allclose(found_scores, row[order], rtol=1e-5)


def test_lengths_do_not_count(engine: FaissFlat) -> None:
    assert engine.search(QUERIES * 7, 5)[0] == engine.search(QUERIES, 5)[0]
    longer = FaissFlat(D)
    longer.add(IDS, DOCUMENTS.multiply(np.arange(1, N + 1)[:, None]).tocsr())
    assert longer.search(QUERIES, 5)[0] == engine.search(QUERIES, 5)[0]


def test_few_documents_and_few_queries(engine: FaissFlat) -> None:
    assert [len(row) for row in engine.search(QUERIES[:2], 1000)[0]] == [N, N]
    assert engine.search(QUERIES[:0], 10) == ([], [])
    ids, scores = FaissFlat(D).search(QUERIES[:2], 10)
    assert (ids, [len(row) for row in scores]) == ([[], []], [0, 0])


def test_threads_are_set_while_it_searches_only(engine: FaissFlat, monkeypatch: pytest.MonkeyPatch) -> None:
    import faiss

    before = faiss.omp_get_max_threads()
    seen: list[int] = []
    monkeypatch.setattr(faiss, "omp_set_num_threads", seen.append)
    engine.threads = 3
    engine.search(QUERIES, 5)
    assert seen == [3, before]


def test_what_is_saved_is_the_vectors(engine: FaissFlat, tmp_path: Path) -> None:
    import faiss

    engine.save(tmp_path / "vectors.faiss")
    assert faiss.read_index(str(tmp_path / "vectors.faiss")).ntotal == N
    assert 4 * N * D <= (tmp_path / "vectors.faiss").stat().st_size < 4 * N * D + 100


def test_without_faiss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ConfigError) as caught:
        FaissFlat(D)
    assert str(caught.value) == "dense vectors are searched with Faiss: pip install faiss-cpu"
