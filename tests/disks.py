"""Disks that come and go."""

import subprocess
from pathlib import Path

import pytest


def mount(folder: Path, *what: str) -> None:
    """Mount what options of `mount` say at a folder, which is made; skip the test where nobody may."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *what, str(folder)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")


def unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
