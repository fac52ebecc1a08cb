import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anserini_bridge import ImpactSearcher, folder_megabytes, read_metadata
from lexlip.data import Skipped, open_source
from lexlip.data.images import READER
from lexlip.errors import ConfigError, DataError
from lexlip.indexing.bm25 import index_captions
from lexlip.indexing.dense import index_vectors
from lexlip.indexing.impact import impacts, index_photos
from lexlip.indexing.report import Indexed
from lexlip.models.lexlip import LexLIP
from lexlip.queries.photo_vectors import PhotoVectors
from lexlip.sparse.quantize import Scheme, quantize
from lexlip.sparse.top_words import topk
from tests.tiny import balanced, tiny_balanced, tiny_dense, tiny_model

IDS = [f"{number}.jpg" for number in range(6)]


@pytest.fixture(scope="module")
def model() -> LexLIP:
    return tiny_model()


def index(model: LexLIP, photos: Path, folder: Path, **options: Any) -> Indexed:
    return index_photos(model, "my model", open_source(photos), 12.5, folder, workers=0, **options)


@pytest.mark.parametrize(
    ("kept", "scheme"), [(32, "unit"), (3, "unit"), (None, "unit"), (4, "paper"), (3, "dot")]
)
def test_photos_are_stored_as_their_heaviest_words_in_whole_weights(
    model: LexLIP, photos: Path, tmp_path: Path, kept: int | None, scheme: Scheme
) -> None:
    done = index(model, photos, tmp_path / "index", topk_words=kept, scheme=scheme)
    [(ids, vectors)] = PhotoVectors(model, open_source(photos), workers=0)
    expected = quantize(topk(vectors, kept), scheme)
    with ImpactSearcher(tmp_path / "index") as searcher:
        assert sorted(searcher.ids()) == ids == IDS
        assert (searcher.vectors(IDS) != expected).nnz == 0
        assert list(searcher.vocabulary) == list(model.vocabulary.words)
    assert done.postings == expected.nnz


@pytest.mark.parametrize("kept", [32, 11, None])
def test_a_model_with_a_bank_balances_photos(photos: Path, tmp_path: Path, kept: int | None) -> None:
    model, folder = tiny_balanced(), tmp_path / "index"
    index(model, photos, folder, topk_words=kept)
    assert read_metadata(folder).quantization == {"scheme": "balanced", "scale": 1000}
    [(_, vectors)] = PhotoVectors(model, open_source(photos), workers=0)
    assert model.balance is not None
    bank = model.balance.photos
    documents = balanced(bank, vectors, kept)
    assert kept != 11 or np.count_nonzero(documents) < vectors.nnz
    expected = np.rint(1000 * documents.astype(np.float64))
    with ImpactSearcher(folder) as searcher:
        np.testing.assert_array_equal(searcher.vectors(IDS).toarray(), expected)
    index(model, photos, folder, scheme="unit")
    assert read_metadata(folder).quantization["scheme"] == "unit"
    with pytest.raises(ConfigError, match="no captions to balance with"):
        index(tiny_model(), photos, folder, scheme="balanced")
    assert read_metadata(folder).quantization["scheme"] == "unit"


def test_photos_of_a_model_that_compares_by_dot_product_keep_their_lengths(
    photos: Path, tmp_path: Path
) -> None:
    model = tiny_model(metric="dot")
    index(model, photos, tmp_path / "index")
    assert read_metadata(tmp_path / "index").quantization == {"scheme": "dot", "scale": 1000}
    [(_, vectors)] = PhotoVectors(model, open_source(photos), workers=0)
    lengths = np.linalg.norm(vectors.toarray(), axis=1)
    with ImpactSearcher(tmp_path / "index") as searcher:
        stored = np.linalg.norm(searcher.vectors(IDS).toarray() / 1000, axis=1)
    np.testing.assert_allclose(stored, lengths, rtol=1e-2)
    assert lengths.std() > 0


def test_what_is_stored_and_reported(model: LexLIP, photos: Path, tmp_path: Path) -> None:
    (photos / "bad.jpg").write_text("no photo")
    (photos / "empty.jpg").touch()
    folder = tmp_path / "index"
    done = index(model, photos, folder, topk_words=4)
    found = read_metadata(folder)
    assert (found.encoder, found.topk, found.normalize) == (model.identity, 4, True)
    assert found.quantization == {"scheme": "unit", "scale": 1000}
    assert found.extra == {
        "model": "my model",
        "listed": 12.5,
        "source": str(photos),
        "root": f"{photos}/",
        "relative": False,
        "photos": "photos-1.sqlite",
        "captions": {"folder": "captions-1", "language": "en", "documents": 6},
        "reader": READER,
        "seal": found.extra["seal"],
    }
    assert (done.index, done.photos, done.postings) == (str(folder), 6, found.postings)
    assert done.megabytes == folder_megabytes(folder)
    assert done.seconds > 0
    assert set(done.skipped) == {Skipped("bad.jpg", "not an image"), Skipped("empty.jpg", "empty file")}


def test_pseudo_documents_are_what_is_indexed(model: LexLIP, photos: Path, tmp_path: Path) -> None:
    index(model, photos, tmp_path / "index", pseudo_documents=tmp_path / "documents.jsonl")
    documents = [json.loads(line) for line in (tmp_path / "documents.jsonl").read_text().splitlines()]
    assert [document["id"] for document in documents] == IDS
    with ImpactSearcher(tmp_path / "index") as searcher:
        vectors, words = searcher.vectors(IDS), searcher.vocabulary
    for document, row in zip(documents, vectors, strict=True):
        assert document["vector"] == {words[c]: w for c, w in zip(row.indices, row.data, strict=True)}


def test_pseudo_documents_that_cannot_be_written_leave_the_old_index(
    model: LexLIP, photos: Path, tmp_path: Path
) -> None:
    index(model, photos, tmp_path / "index", topk_words=3)
    with pytest.raises(DataError, match=r"cannot write .*documents.jsonl: No such file or directory"):
        index(model, photos, tmp_path / "index", pseudo_documents=tmp_path / "no" / "documents.jsonl")
    assert read_metadata(tmp_path / "index").topk == 3


def test_without_a_photo_that_can_be_read_nothing_is_written(
    model: LexLIP, photos: Path, tmp_path: Path
) -> None:
    for photo in photos.glob("*.jpg"):
        photo.write_bytes(b"")
    with pytest.raises(DataError, match=r"can be read \(6 tried; 0.jpg: empty file\)"):
        index(model, photos, tmp_path / "index")
    assert not (tmp_path / "index").exists()


def test_a_folder_that_cannot_be_written(model: LexLIP, photos: Path, tmp_path: Path) -> None:
    """Of an index of any kind."""
    (tmp_path / "file").touch()
    source, folder = open_source(photos), tmp_path / "file" / "index"
    for write in (
        lambda: index(model, photos, folder),
        lambda: index_vectors(tiny_dense(), "my model", source, 12.5, folder, workers=0),
        lambda: index_captions(source, 12.5, folder),
    ):
        with pytest.raises(DataError, match=r"cannot write the index .*file/index: Not a directory"):
            write()


def test_batches_of_whole_weights(model: LexLIP, photos: Path) -> None:
    vectors = PhotoVectors(model, open_source(photos), batch=4, workers=0)
    batches = list(impacts(vectors, 3, "paper"))
    assert [ids for ids, _ in batches] == [IDS[:4], IDS[4:]]
    for _, rows in batches:
        assert rows.getnnz(axis=1).max() <= 3
        assert (rows.data == rows.data.astype(int)).all()
