from pathlib import Path

from tests.benchmarks.peers.libraries import recalls_of


def test_it_finds_what_brute_force_finds(tmp_path: Path) -> None:
    assert recalls_of("qdrant", tmp_path) == [1]
