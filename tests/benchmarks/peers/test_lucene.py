from pathlib import Path

import pytest

from tests.benchmarks.peers.libraries import recalls_of


@pytest.mark.parametrize(
    "name",
    ["lexlip", "anserini", pytest.param("pyserini", marks=pytest.mark.slow)],  # it takes long to import
)
def test_it_finds_what_brute_force_finds(name: str, tmp_path: Path) -> None:
    assert recalls_of(name, tmp_path)[0] == 1
