import os
from pathlib import Path

import pytest


@pytest.fixture
def shared() -> Path:
    """The folder of real photos, which is not part of the repository."""
    beside = Path(__file__).parents[2] / "shared"
    folder = Path(os.environ.get("LEXLIP_SHARED", beside)) / "data"
    if not folder.is_dir():
        pytest.skip(f"no real photos: {folder} does not exist (LEXLIP_SHARED names the folder above it)")
    return folder
