from pathlib import Path

import pytest

from benchmarks.benchmark import NEAR
from tests.benchmarks.peers.libraries import recalls_of


@pytest.mark.parametrize(
    ("name", "least"), [("faiss-flat", 1), ("faiss-hnsw", NEAR - 0.04), ("faiss-ivf-sq8", NEAR - 0.04)]
)
def test_one_setting_finds_what_brute_force_finds(name: str, least: float, tmp_path: Path) -> None:
    assert max(recalls_of(name, tmp_path)) >= least
