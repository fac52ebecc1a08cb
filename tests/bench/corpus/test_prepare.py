from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from lexlip.bench.corpus import synthetic
from lexlip.bench.corpus.prepare import prepare_photos, prepare_synthetic
from lexlip.bench.corpus.synthetic import SyntheticVectors
from lexlip.data import open_source
from lexlip.errors import ConfigError, DataError
from lexlip.models.lexlip import LexLIP
from lexlip.photo_vectors import PhotoVectors, encode_captions
from lexlip.sparse.quantize import quantize
from lexlip.sparse.topk import topk
from tests.bench.corpus.small_corpus import SMALL


@pytest.fixture(autouse=True)
def small_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(synthetic.SHAPES, "mini", SMALL)
    monkeypatch.setattr(synthetic, "BLOCK", 512)


def same(one: csr_matrix, other: csr_matrix) -> bool:
    return one.shape == other.shape and (one != other).nnz == 0


def test_synthetic_vectors(tmp_path: Path) -> None:
    corpus, made = prepare_synthetic(tmp_path / "new", "mini", 200, 8, 20, 12, seed=3, dense=True)
    vectors = SyntheticVectors(SMALL, seed=3)
    ((_, documents),) = vectors.documents(200, 8)
    assert same(corpus.rows(0, 200), documents)
    assert same(corpus.queries, vectors.queries(20, 12, corpus=200))
    np.testing.assert_array_equal(corpus.dense, next(vectors.dense_documents(200)))
    np.testing.assert_array_equal(corpus.dense_queries, vectors.dense_queries(20, corpus=200))
    wanted = {"source": "synthetic", "documents": 200, "topk": 8, "seed": 3, "query_terms": 12}
    assert made == {**wanted, "shape": asdict(SMALL)}


def test_documents_are_kept_and_queries_are_not(tmp_path: Path) -> None:
    first, _ = prepare_synthetic(tmp_path, "mini", 200, 8, 20, 12, seed=0, dense=False)
    assert first.queries.shape[0] == 20
    written = (tmp_path / "weights").stat().st_mtime_ns
    second, _ = prepare_synthetic(tmp_path, "mini", 200, 8, 30, 5, seed=0, dense=True)
    assert (tmp_path / "weights").stat().st_mtime_ns == written
    assert second.queries.shape[0] == 30
    assert second.dimensions == 512
    with pytest.raises(ConfigError, match="holds other documents; give another --work-dir, or remove it"):
        prepare_synthetic(tmp_path, "mini", 100, 8, 20, 12, seed=0, dense=False)


def test_photos(tmp_path: Path, photos: Path, model_folder: Path) -> None:
    model, source = LexLIP.from_pretrained(model_folder), open_source(str(photos))
    corpus, made = prepare_photos(tmp_path / "corpus", model, source, 4, 8, 5, 3, seed=0)
    ((_, vectors),) = PhotoVectors(model, source)
    assert same(corpus.rows(0, 4), quantize(topk(vectors[:4], 8)))
    captions = [item.captions[0] for item in source.items]
    expected = quantize(topk(encode_captions(model, captions), 3)).toarray().tolist()
    assert corpus.queries.shape[0] == 5
    assert all(query in expected for query in corpus.queries.toarray().tolist())
    assert made["model"] == model.identity
    assert corpus.dimensions == 0


def test_photos_without_captions(tmp_path: Path, photos: Path, model_folder: Path) -> None:
    for captions in photos.glob("*.txt"):
        captions.unlink()
    with pytest.raises(DataError, match="has a caption: give photos with captions"):
        prepare_photos(
            tmp_path, LexLIP.from_pretrained(model_folder), open_source(str(photos)), None, 8, 5, 3, seed=0
        )
