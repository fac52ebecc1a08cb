from pathlib import Path

import pytest

from tests.conftest import write_photos
from tests.search.indexes import Indexed
from tests.tiny import tiny_stage


@pytest.fixture(scope="session")
def indexed(tmp_path_factory: pytest.TempPathFactory, model_folder: Path) -> Indexed:
    """Six photos and an index of each kind, not to be changed."""
    return Indexed.of(write_photos(tmp_path_factory.mktemp("indexed") / "photos"), model_folder)


@pytest.fixture(scope="session")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random model that compares pairs, not to be changed."""
    folder = tmp_path_factory.mktemp("models") / "ce"
    tiny_stage("ce").save(folder)
    return folder
