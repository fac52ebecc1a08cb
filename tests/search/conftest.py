from pathlib import Path

import pytest

from tests.conftest import write_photos
from tests.search.indexes import Indexed, index_bm25, index_dense, index_words
from tests.tiny import tiny_dense, tiny_stage


@pytest.fixture(scope="session")
def indexed(tmp_path_factory: pytest.TempPathFactory, model_folder: Path) -> Indexed:
    """Six photos and an index of each kind, not to be changed."""
    folder = tmp_path_factory.mktemp("indexed")
    photos = write_photos(folder / "photos")
    tiny_dense().save(folder / "dense-model")
    return Indexed(
        photos,
        index_words(model_folder, photos, folder / "words"),
        index_dense(folder / "dense-model", photos, folder / "dense"),
        index_bm25(photos, folder / "bm25"),
        folder / "dense-model",
    )


@pytest.fixture(scope="session")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random model that compares pairs, not to be changed."""
    folder = tmp_path_factory.mktemp("models") / "ce"
    tiny_stage("ce").save(folder)
    return folder
