from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from scipy.sparse import csr_matrix

from anserini_bridge import CorruptIndex
from lexlip.search.engines.exact import exact_engine
from lexlip.search.engines.faiss_index import (
    FaissIndex,
    faiss_engine,
    lists_for,
    make_faiss,
    make_int8,
    make_lists,
)
from tests.search.engines.vectors import unit

N, D = 300, 12
IDS = [f"{number}.jpg" for number in range(N)]


def random_vectors(rows: int, seed: int) -> csr_matrix:
    """Of all lengths."""
    rng = np.random.default_rng(seed)
    return csr_matrix((rng.normal(size=(rows, D)) * rng.uniform(0.5, 2, (rows, 1))).astype(np.float32))


DOCUMENTS, QUERIES = random_vectors(N, 0), random_vectors(30, 1)


def make(metric: Any = "cosine", **options: Any) -> FaissIndex:
    index = FaissIndex(make_faiss(D), metric=metric, **options)
    index.add(IDS[:200], DOCUMENTS[:200])
    index.add(IDS[200:], DOCUMENTS[200:])
    return index


@pytest.fixture
def engine() -> FaissIndex:
    return make()


def brute_force(metric: str) -> np.ndarray:
    """[queries, documents]"""
    if metric == "cosine":
        return unit(QUERIES) @ unit(DOCUMENTS).T
    return QUERIES.toarray() @ DOCUMENTS.toarray().T


@pytest.mark.parametrize("metric", ["cosine", "dot"])
@pytest.mark.parametrize("batch", [1, 7, 30, 256])
def test_scores_are_those_of_numpy_whatever_the_batch(metric: str, batch: int) -> None:
    engine = make(metric, batch=batch)
    assert len(engine) == N
    ids, scores = engine.search(QUERIES, 10)
    for found, found_scores, row in zip(ids, scores, brute_force(metric), strict=True):
        order = np.argsort(-row)[:10]
        assert found == [IDS[i] for i in order]
        np.testing.assert_allclose(found_scores, row[order], rtol=1e-4)


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_it_finds_what_the_exact_engine_finds(metric: Any) -> None:
    with faiss_engine(IDS, DOCUMENTS, metric) as engine, exact_engine(IDS, DOCUMENTS, metric=metric) as exact:
        assert engine.search(QUERIES, 10)[0] == exact.search(QUERIES, 10)[0]


def test_lengths_of_documents_count_in_dot_products_alone() -> None:
    longer = DOCUMENTS.multiply(np.arange(1, N + 1)[:, None]).tocsr()
    for metric, same in (("cosine", True), ("dot", False)):
        with (
            faiss_engine(IDS, DOCUMENTS, metric) as engine,  # type: ignore[arg-type]
            faiss_engine(IDS, longer, metric) as other,  # type: ignore[arg-type]
        ):
            assert (other.search(QUERIES, 5)[0] == engine.search(QUERIES, 5)[0]) is same
            assert engine.search(QUERIES * 7, 5)[0] == engine.search(QUERIES, 5)[0]


def test_few_documents_and_few_queries(engine: FaissIndex) -> None:
    assert [len(row) for row in engine.search(QUERIES[:2], 1000)[0]] == [N, N]
    assert engine.search(QUERIES[:0], 10) == ([], [])
    for ann in ("flat", "hnsw"):
        ids, scores = FaissIndex(make_faiss(D, ann)).search(QUERIES[:2], 10)
        assert (ids, [len(row) for row in scores]) == ([[], []], [0, 0])


def test_a_vector_of_zeros_is_like_nothing() -> None:
    with faiss_engine(["a", "b"], csr_matrix([[0.0, 0.0], [1.0, 0.0]])) as engine:
        ids, scores = engine.search(csr_matrix([[0.0, 0.0], [-1.0, 0.0]]), 2)
    assert [set(row) for row in ids] == [{"a", "b"}] * 2
    assert [list(row) for row in scores] == [[0, 0], [0, -1]]


def test_a_graph_finds_nearly_all_among_clusters() -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(40, 32))
    rows = centres[rng.integers(40, size=3200)] + 0.5 * rng.normal(size=(3200, 32))
    ids = [str(row) for row in range(3000)]
    documents, queries = csr_matrix(rows[:3000]), csr_matrix(rows[3000:])
    for metric in ("cosine", "dot"):
        with (
            faiss_engine(ids, documents, metric) as flat,  # type: ignore[arg-type]
            faiss_engine(ids, documents, metric, "hnsw") as graph,  # type: ignore[arg-type]
        ):
            wanted, found = flat.search(queries, 10)[0], graph.search(queries, 10)
        shared = [len(set(a) & set(b)) / 10 for a, b in zip(wanted, found[0], strict=True)]
        assert np.mean(shared) > 0.95
        assert all(list(row) == sorted(row, reverse=True) for row in found[1])


def test_a_graph_is_asked_for_more_than_it_follows() -> None:
    with faiss_engine(IDS, DOCUMENTS, ann="hnsw") as engine:
        assert [len(row) for row in engine.search(QUERIES[:3], 1000)[0]] == pytest.approx([N] * 3, rel=0.2)


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_8_bits_a_dimension_change_scores_by_less_than_a_step(metric: Any) -> None:
    engine = FaissIndex(make_int8(D), metric=metric)
    engine.learn(DOCUMENTS)
    engine.add(IDS, DOCUMENTS)
    vectors, asked = ((unit(rows) if metric == "cosine" else rows.toarray()) for rows in (DOCUMENTS, QUERIES))
    most = np.abs(asked).sum(axis=1) * np.ptp(vectors, axis=0).max() / 255
    for found, scores, row, bound in zip(*engine.search(QUERIES, N), brute_force(metric), most, strict=True):
        assert sorted(found) == sorted(IDS)
        assert np.abs(scores - row[[IDS.index(id) for id in found]]).max() < bound


def test_about_twice_the_root_of_documents_are_lists() -> None:
    for documents in (1, 2, 100, 5000, 1_000_000, 10_000_000):
        lists = lists_for(documents)
        assert lists & (lists - 1) == 0
        assert 2 * documents**0.5 / 1.5 < lists < 2 * documents**0.5 * 1.5


@pytest.mark.parametrize(
    ("dimensions", "parts"), [(512, 64), (384, 64), (768, 64), (100, 50), (20, 20), (37, 37)]
)
def test_lists_keep_at_most_64_bytes_of_a_vector(dimensions: int, parts: int) -> None:
    index = make_lists(dimensions, 3000, "PQ")
    assert (index.pq.M, index.pq.nbits, index.code_size) == (parts, 8, parts)
    assert make_lists(dimensions, 3000, "SQ8").code_size == dimensions


@pytest.mark.parametrize("codes", ["SQ8", "PQ"])
def test_lists_that_are_all_read_find_nearly_what_brute_force_finds(
    codes: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEXLIP_CORES", "1")  # threads of k-means wait for each other
    engine = FaissIndex(make_lists(D, N, codes))
    engine.learn(DOCUMENTS)
    engine.add(IDS, DOCUMENTS)
    engine.vectors.nprobe = lists_for(N)
    shared = [
        len({*found} & {IDS[i] for i in np.argsort(-row)[:10]}) / 10
        for found, row in zip(engine.search(QUERIES, 10)[0], brute_force("cosine"), strict=True)
    ]
    assert np.mean(shared) > 0.9
    assert capfd.readouterr().err == ""  # no warnings that so few are there to learn from


def test_threads_are_set_while_it_searches_only(engine: FaissIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    before = faiss.omp_get_max_threads()
    seen: list[int] = []
    monkeypatch.setattr(faiss, "omp_set_num_threads", seen.append)
    engine.threads = 3
    engine.search(QUERIES, 5)
    assert seen == [3, before]


@pytest.mark.parametrize("ann", ["flat", "hnsw"])
@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_what_is_saved_answers_alike(tmp_path: Path, ann: Any, metric: Any) -> None:
    names = ['new\nline "quoted"', "größe 写真 😀", *IDS[2:]]
    with faiss_engine(names, DOCUMENTS, metric, ann) as engine:
        engine.save(tmp_path)
        expected = engine.search(QUERIES, 50)
    loaded = FaissIndex.load(tmp_path, metric)
    assert loaded.ids == names
    ids, scores = loaded.search(QUERIES, 50)
    if ann == "flat":
        assert ids == expected[0]
        assert 4 * N * D <= (tmp_path / "vectors.faiss").stat().st_size < 4 * N * D + 100
    np.testing.assert_allclose(np.concatenate(scores), np.concatenate(expected[1]), rtol=1e-4, atol=1e-6)


def test_damaged_files(tmp_path: Path, engine: FaissIndex) -> None:
    engine.save(tmp_path)
    for name, contents in (("vectors.faiss", [b"", b"short"]), ("ids.json", [b"", b"[]", b"{", b"\xff"])):
        whole = (tmp_path / name).read_bytes()
        for content in (*contents, whole[: len(whole) // 2], None):
            (tmp_path / name).unlink()
            if content is not None:
                (tmp_path / name).write_bytes(content)
            with pytest.raises(CorruptIndex, match=r"is damaged \(.*\): build the index again$") as caught:
                FaissIndex.load(tmp_path)
            assert "\n" not in str(caught.value)
            (tmp_path / name).write_bytes(whole)
    assert len(FaissIndex.load(tmp_path)) == N
