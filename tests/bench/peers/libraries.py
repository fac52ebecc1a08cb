"""Every library that is installed finds what brute force finds."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from lexlip.bench.engine.benchmark import NEAR
from lexlip.bench.peers import ENGINES, LIBRARIES, choose, library_class
from lexlip.bench.engine.truth import DenseTruth, SparseTruth
from lexlip.bench.engine.worker import LibraryProcess
from lexlip.errors import ConfigError
from tests.bench.corpus.small_corpus import small_corpus

EXACT = {"lexlip", "pyserini", "anserini", "faiss-flat", "scipy"}
SLOW = {"pyserini"}  # whose import takes seconds


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in LIBRARIES]
)
def test_a_library(name: str, tmp_path: Path) -> None:
    kind = library_class(name)
    for module in kind.modules:
        if find_spec(module) is None:
            pytest.skip(f"{name} is optional: pip install {kind.pip}")
    corpus = small_corpus(tmp_path / "corpus", documents=2_000)
    for folder in ("index", "staged"):
        (tmp_path / folder).mkdir()
    truth = (DenseTruth if kind.dense else SparseTruth)(corpus, 20, 10)
    process = LibraryProcess(
        sys.executable,
        tmp_path / "log",
        library=name,
        corpus=str(corpus.folder),
        folder=str(tmp_path / "index"),
        threads=1,
    )
    try:
        assert process.call("build", staged=str(tmp_path / "staged")) > 0
        assert any((tmp_path / "index").iterdir())
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
    assert max(recalls) >= (1 if name in EXACT else NEAR - 0.04)


def test_engines_by_name() -> None:
    assert list(ENGINES) == [spec.name for spec in choose([])]
    assert [spec.name for spec in choose(["scipy", "lexlip"])] == ["lexlip", "scipy"]
    assert [spec.name for spec in choose(["faiss-flat"])] == ["faiss-flat"]
    assert {spec.library for spec in choose(["faiss-hnsw"])} == {"faiss-hnsw"}
    assert len(choose(["seismic"])) > 3
    with pytest.raises(ConfigError, match="no engine 'faiss-hsnw'; did you mean 'faiss-hnsw'"):
        choose(["lexlip", "faiss-hsnw"])
    with pytest.raises(ConfigError, match="no engine 'xyzzy'; there are lexlip, lexlip-single"):
        choose(["xyzzy"])
