"""A small corpus and its index, for all tests of the bridge."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from bridge_corpus import ROOT, SETTINGS, Corpus, random_vectors, written
from scipy.sparse import csr_matrix

from anserini_bridge import ImpactWriter


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    """More documents than a group of blocks holds; few distinct weights, so that many scores tie."""
    vectors = random_vectors(rows=10_000, width=200, density=0.04, top=4, seed=0)
    vectors.data[vectors.indptr[17] : vectors.indptr[18]] = 0  # a document without words
    vectors.eliminate_zeros()
    return Corpus(
        [f"{i * 7919 % 10_000:04d}.jpg" for i in range(10_000)], vectors, [f"w{i}" for i in range(200)]
    )


@pytest.fixture(scope="session")
def index(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of the corpus, which tests must not change."""
    path = tmp_path_factory.mktemp("indexes") / "corpus"
    with ImpactWriter(path, corpus.words, **SETTINGS) as writer:
        writer.add(corpus.ids[:6_000], corpus.vectors[:6_000])
        writer.add(corpus.ids[6_000:], corpus.vectors[6_000:])
    return path


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """An index of three documents over the words a, b, c, which a test may change."""
    rows = csr_matrix([[3, 0, 1], [0, 2, 0], [1, 1, 1]])
    return written(tmp_path / "small", ["a", "b", "c"], ["x", "y", "z"], rows)


@pytest.fixture
def run_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs code in a new Python process, at the root of the project."""

    def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code, *map(str, arguments)]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)

    return run
