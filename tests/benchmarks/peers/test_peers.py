import pytest

from benchmarks.peers import ENGINES, LIBRARIES, choose, library_class
from lexlip.errors import ConfigError


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
