import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[3] / "tools" / "studies" / "cluster_search.py"


@pytest.mark.slow
def test_a_cluster_finds_what_one_process_finds() -> None:
    small = "--documents", "2000", "--seconds", "0.5"
    done = subprocess.run([sys.executable, TOOL, *small], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Ray, 2 shards" in done.stdout
    assert all(line.endswith("yes") for line in done.stdout.splitlines()[1:])
