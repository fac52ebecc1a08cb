"""Search among a set of allowed documents against the plain formula."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bridge_corpus import brute_force, listed, random_vectors, written
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, load_npz, save_npz

from anserini_bridge import BadVectors, ImpactSearcher, update_index

FULL = """
import json, sys
from pathlib import Path
import numpy as np
from scipy.sparse import load_npz
from anserini_bridge import ImpactSearcher
work = Path(sys.argv[1])
queries = load_npz(work / "queries.npz")
with ImpactSearcher(work / "i") as searcher:
    sets = [searcher.allow(mask) for mask in np.load(work / "masks.npy")]
    for _ in range(3):
        answers = []
        for allowed in sets:
            ids, scores = searcher.search(queries, 10, allowed=allowed)
            answers.append([(names, row.tolist()) for names, row in zip(ids, scores)])
            searcher.search(queries, 10)
print(json.dumps(answers))
"""
WORDS = [f"w{i}" for i in range(200)]
ROWS = 9_000


@pytest.fixture(scope="module", params=[512, 2], ids=["one segment", "several"])
def updated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of which every seventh was deleted."""
    path = tmp_path_factory.mktemp("allowed") / "i"
    vectors = random_vectors(ROWS, 200, 0.05, 6, seed=3)
    written(path, WORDS, [f"{row}" for row in range(ROWS)], vectors, memory_mb=request.param)
    with update_index(path) as writer:
        writer.delete([f"{row}" for row in range(0, ROWS, 7)])
    return path


def allowed_rows(share: float) -> NDArray[np.bool_]:
    chosen = np.random.default_rng(0).random(ROWS) < share
    chosen[::7] = False
    return chosen


@pytest.mark.parametrize("share", [1.0, 0.8, 0.5, 0.1, 0.01, 0.0005, 0.0])
@pytest.mark.parametrize("top", [5, 2**30], ids=["pruned", "exhaustive"])
@pytest.mark.parametrize("k", [1, 10, 2_000])
def test_search_among_allowed_documents(updated: Path, share: float, top: int, k: int) -> None:
    vectors = random_vectors(ROWS, 200, 0.05, 6, seed=3)
    queries = random_vectors(12, 200, 0.06, 5, seed=4)
    queries.data = queries.data.astype(np.int64) * (top // 5)
    rows = np.flatnonzero(allowed_rows(share))
    with ImpactSearcher(updated) as opened, opened.hold() as searcher:
        allowed = np.zeros(searcher.size, np.bool_)
        allowed[searcher.numbers([f"{row}" for row in rows])] = True
        answers = [
            searcher.search(queries, k, threads=2, allowed=each)
            for each in (allowed, searcher.allow(allowed))
        ]
    expected = brute_force(queries, vectors[rows], [f"{row}" for row in rows], k)
    for found in answers:
        assert listed(found) == expected


def test_a_prepared_set_finds_the_same_in_its_own_state_only(updated: Path, tmp_path: Path) -> None:
    path = tmp_path / "i"
    shutil.copytree(updated, path)
    queries = random_vectors(12, 200, 0.06, 5, seed=4)
    with ImpactSearcher(path) as searcher:
        mask = np.random.default_rng(5).random(searcher.size) < 0.1
        prepared = searcher.allow(mask)
        for k in (1, 10):
            wanted = searcher.search(queries, k, allowed=mask)
            assert listed(searcher.search(queries, k, allowed=prepared)) == listed(wanted)
        with searcher.hold() as held:
            with update_index(path) as writer:
                writer.delete(["1"])
            assert searcher.refresh()
            with pytest.raises(BadVectors, match="of another state of the index: prepare them again"):
                searcher.search(queries, allowed=prepared)
            assert held.search(queries, 10, allowed=prepared)[0] == wanted[0]


def test_answers_stay_when_the_memory_of_postings_is_full(tmp_path: Path) -> None:
    """Java has room for the postings of some words only, and drops them again and again."""
    vectors = random_vectors(30_000, 100, 0.5, 6, seed=6)
    written(tmp_path / "i", WORDS[:100], [f"{row}" for row in range(30_000)], vectors)
    np.save(tmp_path / "masks.npy", np.random.default_rng(7).random((3, 30_000)) < [[0.7], [0.5], [0.02]])
    save_npz(tmp_path / "queries.npz", random_vectors(20, 100, 0.3, 5, seed=8))
    ran = subprocess.run(
        [sys.executable, "-c", FULL, tmp_path],
        env=os.environ | {"JAVA_TOOL_OPTIONS": "-Xmx28m"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    queries, masks = load_npz(tmp_path / "queries.npz"), np.load(tmp_path / "masks.npy")
    with ImpactSearcher(tmp_path / "i") as searcher:
        numbers = searcher.numbers([f"{row}" for row in range(30_000)])
    for mask, answers in zip(masks, json.loads(ran.stdout), strict=True):
        rows = np.flatnonzero(mask[numbers])
        expected = brute_force(queries, vectors[rows], [f"{row}" for row in rows], 10)
        assert [(ids, scores) for ids, scores in answers] == expected


def test_deleted_documents_are_never_found(updated: Path) -> None:
    queries = random_vectors(5, 200, 0.06, 5, seed=4)
    with ImpactSearcher(updated) as opened, opened.hold() as searcher:
        everything = np.ones(searcher.size, np.bool_)
        with_set = searcher.search(queries, ROWS, allowed=everything)
        without = searcher.search(queries, ROWS)
    assert with_set[0] == without[0]


def test_numbers_holding_and_frequencies(updated: Path) -> None:
    vectors = random_vectors(ROWS, 200, 0.05, 6, seed=3).tocsc()
    with ImpactSearcher(updated) as opened, opened.hold() as searcher:
        numbers = searcher.numbers([f"{row}" for row in range(ROWS)])
        live = np.flatnonzero(numbers >= 0)
        assert live.tolist() == [row for row in range(ROWS) if row % 7]
        assert len(set(numbers[live].tolist())) == len(live)
        assert searcher.numbers([]).tolist() == []
        for columns in ([3], [3, 100], []):
            holding = searcher.holding(columns)
            assert (holding.dtype, len(holding)) == (np.bool_, searcher.size)
            expected = np.asarray(vectors[:, columns].sum(axis=1)).ravel() > 0
            assert (holding[numbers[live]] == expected[live]).all()
        counts = searcher.frequencies()
    assert counts.shape == (200,)
    held = np.diff(vectors[live].tocsc().indptr)
    assert (counts >= held).all()  # deleted documents count until Lucene merges them away
    assert (counts <= np.diff(vectors.indptr)).all()


@pytest.mark.parametrize("allowed", [np.ones(3, np.bool_), np.ones(ROWS, np.int64)])
def test_a_set_of_another_state_is_refused(updated: Path, allowed: NDArray[np.generic]) -> None:
    with ImpactSearcher(updated) as searcher, pytest.raises(BadVectors, match="allowed is"):
        searcher.search(csr_matrix((1, 200), dtype=int), allowed=allowed)  # type: ignore[arg-type]
