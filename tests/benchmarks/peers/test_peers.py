from pathlib import Path

import pytest

from benchmarks.benchmark import NEAR
from benchmarks.peers import ENGINES, LIBRARIES, choose, library_class
from lexlip.errors import ConfigError
from tests.benchmarks.peers.libraries import recalls_of


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


@pytest.mark.parametrize("name", LIBRARIES)
def test_every_library_has_engines_and_says_what_to_install(name: str) -> None:
    kind = library_class(name)
    assert any(spec.library == name for spec in ENGINES.values())
    assert kind.modules
    assert kind.pip


def test_of_libraries_with_the_same_index_one_builds_it() -> None:
    shared = {name: library_class(name).index for name in ("pyserini", "anserini", "lexlip")}
    assert shared == {"pyserini": "anserini", "anserini": "anserini", "lexlip": "lexlip"}


PYSERINI = pytest.param("pyserini", marks=pytest.mark.slow)  # it takes long to import


@pytest.mark.parametrize("name", ["lexlip", "anserini", PYSERINI, "faiss-flat", "sindi", "qdrant", "scipy"])
def test_an_exact_library_finds_what_brute_force_finds(name: str, tmp_path: Path) -> None:
    assert recalls_of(name, tmp_path)[0] == 1


@pytest.mark.parametrize("name", ["faiss-hnsw", "faiss-ivf-sq8", "seismic", "seismic-knn", "kannolo"])
def test_one_setting_of_an_approximate_library_finds_nearly_that(name: str, tmp_path: Path) -> None:
    assert max(recalls_of(name, tmp_path)) >= NEAR - 0.04


def test_vectors_in_64_bytes_are_nearly_as_good(tmp_path: Path) -> None:
    assert max(recalls_of("faiss-ivf-pq", tmp_path)) > 0.5
