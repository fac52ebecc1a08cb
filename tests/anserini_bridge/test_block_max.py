"""Pruned search against the plain formula: over segments, updates, clusters and large weights."""

from pathlib import Path

import numpy as np
import pytest
from bridge_corpus import SETTINGS, brute_force, listed, random_vectors, search, written
from scipy.sparse import csr_matrix, vstack

from anserini_bridge import BadVectors, ImpactSearcher, ImpactWriter, update_index
from anserini_bridge.jvm import java_class

WORDS = [f"w{i}" for i in range(300)]


def clustered_vectors(rows: int, seed: int, top: int = 900) -> csr_matrix:
    """Documents of 30 topics, in no order, so that search has something to skip."""
    rng = np.random.default_rng(seed)
    topics = rng.random((30, 300)) ** 8
    chance = topics[rng.integers(0, 30, rows)]
    weights = np.ceil(rng.random((rows, 300)) * top) * (rng.random((rows, 300)) < chance)
    return csr_matrix(weights.astype(np.int64))


def segments(index: Path) -> set[str]:
    return {file.name for file in (index / "data-1" / "lucene").glob("*.si")}


def check_index(path: Path) -> None:
    """Check every file with Lucene's own checker."""
    directory = java_class("org.apache.lucene.store.FSDirectory").open(
        java_class("java.nio.file.Path").of(str(path / "data-1" / "lucene"))
    )
    checker = java_class("org.apache.lucene.index.CheckIndex")(directory)
    try:
        assert checker.checkIndex().clean
    finally:
        checker.close()
        directory.close()


@pytest.fixture(scope="module")
def queries() -> csr_matrix:
    return vstack(
        [clustered_vectors(40, seed=5, top=300), random_vectors(10, 300, 0.05, 300, seed=6)]
    ).tocsr()


@pytest.mark.parametrize("reorder", [True, False])
@pytest.mark.parametrize("memory_mb", [512, 4])  # one segment, several
def test_clusters_and_segments(tmp_path: Path, queries: csr_matrix, reorder: bool, memory_mb: float) -> None:
    vectors = clustered_vectors(12_000, seed=7)
    ids = [f"{i:05d}" for i in range(12_000)]
    with ImpactWriter(tmp_path / "i", WORDS, **SETTINGS, memory_mb=memory_mb, reorder=reorder) as writer:
        for start in range(0, 12_000, 1_000):
            writer.add(ids[start : start + 1_000], vectors[start : start + 1_000])
    check_index(tmp_path / "i")
    assert len(segments(tmp_path / "i")) == 1 if memory_mb == 512 else len(segments(tmp_path / "i")) > 1
    for k in (1, 10, 300, 5_000):
        assert search(tmp_path / "i", queries, k, threads=2) == brute_force(queries, vectors, ids, k)


@pytest.mark.parametrize("largest", [1_023, 1_024, 20_000])  # three weights of at most 1,023 fill an int
def test_words_of_most_documents(tmp_path: Path, largest: int) -> None:
    """Their weights are added for all documents at once, if none is too large."""
    rng = np.random.default_rng(12)
    dense = rng.integers(1, largest, (9_000, 8), endpoint=True) * (rng.random((9_000, 8)) < 0.6)
    dense[rng.integers(0, 9_000, 20), 0] = largest
    dense[0, :], dense[4_095, :], dense[8_999, :] = 0, largest, largest  # ends of groups
    dense[:, 7] = 0
    dense[rng.choice(4_096, 1_024, replace=False), 7] = 5  # the fewest
    vectors = csr_matrix(np.hstack([dense, clustered_vectors(9_000, seed=13).toarray()[:, 8:]]))
    words = np.hstack([rng.integers(0, 300, (40, 8)), rng.random((40, 292)) < 0.03])
    queries = csr_matrix(words * (rng.random((40, 300)) < 0.7))
    ids = [f"{i:04d}" for i in range(9_000)]
    index = written(tmp_path / "i", WORDS, ids, vectors, reorder=False)
    for k in (1, 10, 1_000):
        assert search(index, queries, k) == brute_force(queries, vectors, ids, k)
    allowed = rng.random(9_000) < 0.02
    some = np.flatnonzero(allowed)
    expected = brute_force(queries, vectors[some], [ids[i] for i in some], 10)
    assert search(index, queries, 10, allowed=allowed) == expected


def test_updates_and_optimize_keep_the_answers(tmp_path: Path, queries: csr_matrix) -> None:
    """Adds, upserts (of documents of this session too) and deletes in turn; then in one segment again."""
    rng = np.random.default_rng(8)
    held: dict[str, csr_matrix] = {}  # in the order that decides between equal scores
    new = iter(range(10**6))

    def put(writer: ImpactWriter, names: list[str], upsert: bool) -> None:
        vectors = clustered_vectors(len(names), seed=next(new) + 100, top=3)  # many equal scores
        (writer.upsert if upsert else writer.add)(names, vectors)
        for name, row in zip(names, vectors, strict=True):
            held.pop(name, None)
            held[name] = row

    with ImpactWriter(tmp_path / "i", WORDS, **SETTINGS) as writer:
        put(writer, [f"a{next(new)}" for _ in range(5_000)], upsert=False)
    with ImpactSearcher(tmp_path / "i") as searcher:
        for session in range(5):
            with update_index(tmp_path / "i") as writer:
                put(writer, [f"b{next(new)}" for _ in range(300)], upsert=False)
                for _ in range(2):
                    put(writer, [str(n) for n in rng.choice(list(held), 200, replace=False)], upsert=True)
                    gone = [str(n) for n in rng.choice(list(held), 100, replace=False)]
                    writer.delete(gone)
                    for name in gone:
                        del held[name]
                if session == 4:
                    writer.optimize()
            assert len(segments(tmp_path / "i")) <= 2  # joined
            assert searcher.refresh()
            vectors, ids = vstack(list(held.values())).tocsr(), list(held)
            assert listed(searcher.search(queries, 50)) == brute_force(queries, vectors, ids, 50)
            assert (searcher.vectors(ids[:50]) != vectors[:50]).nnz == 0
    check_index(tmp_path / "i")
    with ImpactSearcher(tmp_path / "i") as searcher:
        assert (searcher.metadata.documents, searcher.metadata.postings) == (len(held), vectors.nnz)
    assert len(segments(tmp_path / "i")) == 1


def test_small_updates_are_written_anew_together(tmp_path: Path, queries: csr_matrix) -> None:
    """The large segment is left alone until the others have a thirty-second of its documents."""
    vectors = clustered_vectors(4_000, seed=11, top=3)
    rows, ids = list(vectors[:3_000]), [str(number) for number in range(3_000)]
    index = written(tmp_path / "i", WORDS, ids, vectors[:3_000])
    large = segments(index)
    for session in range(25):
        more = slice(3_000 + 20 * session, 3_020 + 20 * session)
        with update_index(index) as writer:
            writer.add([f"new{number}" for number in range(more.start, more.stop)], vectors[more])
            writer.delete(ids[:10])
        ids, rows = [*ids[10:], *(f"new{n}" for n in range(more.start, more.stop))], rows[10:]
        rows += list(vectors[more])
        assert len(segments(index)) <= 3
        if session == 3:  # 80 new documents, 2,960 of the first
            assert large < segments(index)
        if session % 6 == 5:
            assert search(index, queries, 20) == brute_force(queries, vstack(rows).tocsr(), ids, 20)
    assert not large & segments(index)
    check_index(index)


def test_optimize_of_an_index_that_does_not_fit_into_the_memory(tmp_path: Path, queries: csr_matrix) -> None:
    vectors = clustered_vectors(8_000, seed=9)
    ids = [f"{i:05d}" for i in range(8_000)]
    index = written(tmp_path / "i", WORDS, ids, vectors)
    with update_index(index, memory_mb=1) as writer:
        writer.delete(ids[:10])
        writer.optimize()
        writer.add(["new"], vectors[:1])
    check_index(index)
    held = vstack([vectors[10:], vectors[:1]]).tocsr()
    assert search(index, queries, 20) == brute_force(queries, held, [*ids[10:], "new"], 20)


def test_weights_on_both_sides_of_what_is_packed(tmp_path: Path) -> None:
    """Terms with weights of 20 bits are searched block by block, and larger ones one by one."""
    vectors = clustered_vectors(6_000, seed=10)
    vectors.data[::3] += 2**20 - 1 - vectors.data[::3]
    huge = vectors[:, 200:].tocsr()
    huge.data[::7] = 2**24
    vectors = csr_matrix(np.hstack([vectors[:, :200].toarray(), huge.toarray()]))
    ids = [f"{i:05d}" for i in range(6_000)]
    index = written(tmp_path / "i", WORDS, ids, vectors)
    below = csr_matrix(
        np.hstack([clustered_vectors(10, seed=11, top=30)[:, :200].toarray(), np.zeros((10, 100))])
    )
    both = clustered_vectors(10, seed=12, top=30)
    large = clustered_vectors(10, seed=13, top=2**30)
    for queries in (below.astype(np.int64), both, large):
        assert search(index, queries, 25) == brute_force(queries, vectors, ids, 25)


def test_alpha_misses_little_and_scores_exactly(tmp_path: Path, queries: csr_matrix) -> None:
    vectors = clustered_vectors(20_000, seed=7)
    ids = [f"{i:05d}" for i in range(20_000)]
    scores_of = (queries @ vectors.T).toarray()
    best = -np.sort(-scores_of)[:, :10]
    with ImpactSearcher(written(tmp_path / "i", WORDS, ids, vectors)) as searcher:
        assert searcher.search(queries, 10)[0] == searcher.search(queries, 10, alpha=1)[0]
        recalls = []
        for alpha in (0.9, 0.7, 0.3):
            names, scores = searcher.search(queries, 10, alpha=alpha)
            for query, (found, row) in enumerate(zip(names, scores, strict=True)):
                assert scores_of[query, [int(name) for name in found]].tolist() == row.tolist()
                assert len(found) == 10
            recalls.append(np.mean([np.isin(row, best[query]) for query, row in enumerate(scores)]))
        assert recalls[0] > 0.97
        assert recalls[0] >= recalls[1] > 0.8
        assert recalls[2] < 1  # it does skip something
        with pytest.raises(BadVectors, match=r"^alpha is 1\.5: give a number above 0 and at most 1$"):
            searcher.search(queries, 10, alpha=1.5)
