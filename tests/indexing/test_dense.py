from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anserini_bridge import folder_megabytes
from lexlip.data import Skipped, open_source
from lexlip.errors import DataError
from lexlip.indexing.dense import index_vectors
from lexlip.indexing.report import Indexed
from lexlip.models.dense import Dense
from lexlip.queries.photo_vectors import PhotoVectors
from tests.search.indexes import open_vectors
from tests.tiny import tiny_dense

IDS = [f"{number}.jpg" for number in range(6)]


@pytest.fixture(scope="module")
def model() -> Dense:
    return tiny_dense()


def index(model: Dense, photos: Path, folder: Path, ann: Any = "flat") -> Indexed:
    return index_vectors(model, "my model", open_source(photos), 12.5, folder, ann, workers=0)


@pytest.mark.parametrize("ann", ["flat", "hnsw"])
def test_photos_are_stored_as_vectors_of_length_one(
    model: Dense, photos: Path, tmp_path: Path, ann: str
) -> None:
    index(model, photos, tmp_path / "index", ann)
    [(ids, vectors)] = PhotoVectors(model, open_source(photos), workers=0)
    rows = vectors.toarray() / np.linalg.norm(vectors.toarray(), axis=1, keepdims=True)
    metadata, stored = open_vectors(tmp_path / "index")
    assert stored.ids == ids == IDS
    kept = np.array([stored.vectors.reconstruct(row) for row in range(6)])
    np.testing.assert_allclose(kept, rows, rtol=1e-5, atol=1e-6)
    assert metadata.ann == ann


def test_what_is_stored_and_reported(model: Dense, photos: Path, tmp_path: Path) -> None:
    (photos / "bad.jpg").write_text("no photo")
    folder = tmp_path / "index"
    done = index(model, photos, folder)
    metadata, _ = open_vectors(folder)
    assert (metadata.encoder, metadata.model_kind, metadata.metric) == (model.identity, "dense", "cosine")
    assert (metadata.dimensions, metadata.documents) == (16, 6)
    assert metadata.extra == {
        "model": "my model",
        "listed": 12.5,
        "source": str(photos),
        "root": f"{photos}/",
        "relative": False,
        "photos": "photos-1.sqlite",
        "seal": metadata.extra["seal"],
    }
    assert (done.index, done.photos, done.postings) == (str(folder), 6, None)
    assert done.megabytes == folder_megabytes(folder)
    assert done.skipped == [Skipped("bad.jpg", "not an image")]


def test_without_a_photo_that_can_be_read_the_old_index_stays(
    model: Dense, photos: Path, tmp_path: Path
) -> None:
    index(model, photos, tmp_path / "index")
    for photo in photos.glob("*.jpg"):
        photo.write_bytes(b"")
    for folder in (tmp_path / "index", tmp_path / "new"):
        with pytest.raises(DataError, match=r"can be read \(6 tried; 0.jpg: empty file\)"):
            index(model, photos, folder)
    assert open_vectors(tmp_path / "index")[1].ids == IDS
    assert not (tmp_path / "new").exists()
