from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT


def test_several_processes() -> None:
    """In a process of their own: forking one that runs a JVM, as other tests leave it, would crash it."""
    tests = Path(__file__).with_name("forked_listing.py")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tests)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout or "3 passed, 1 skipped" in done.stdout
