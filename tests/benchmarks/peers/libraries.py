"""Whether a library finds what brute force finds."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.peers import ENGINES, library_class
from benchmarks.truth import DenseTruth, SparseTruth
from benchmarks.worker import LibraryProcess
from tests.benchmarks.corpus.small_corpus import small_corpus


def recalls_of(name: str, folder: Path) -> list[float]:
    """Recall of each engine of a library, from 0 to 1, in a process of its own; skips what is missing."""
    kind = library_class(name)
    for module in kind.modules:
        if find_spec(module) is None:
            pytest.skip(f"{name} is optional: pip install {kind.pip}")
    corpus = small_corpus(folder / "corpus", documents=2_000)
    for place in ("index", "staged"):
        (folder / place).mkdir()
    truth = (DenseTruth if kind.dense else SparseTruth)(corpus, 20, 10)
    process = LibraryProcess(
        sys.executable,
        folder / "log",
        library=name,
        corpus=str(corpus.folder),
        folder=str(folder / "index"),
        threads=1,
    )
    try:
        assert process.call("build", staged=str(folder / "staged")) > 0
        assert any((folder / "index").iterdir())
        assert process.call("open", queries=20)
        recalls = []
        for spec in (spec for spec in ENGINES.values() if spec.library == name):
            answers = process.call("answers", setting=spec.setting, k=10, count=20)
            recalls.append(sum(map(truth.recall, range(20), answers)) / 20)
            search = {"setting": spec.setting, "k": 10, "count": 5, "repeats": 2}
            assert process.call("one_by_one", **search)["qps"] > 0
            if spec.calls == "batch":
                assert process.call("all_at_once", **search)["qps"] > 0
    finally:
        process.close()
    assert recalls[0] > 0.3
    return recalls
