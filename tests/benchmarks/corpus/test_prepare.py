from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix, vstack

from benchmarks.corpus import synthetic
from benchmarks.corpus.prepare import MIXTURES, prepare_encoded, prepare_synthetic
from benchmarks.corpus.synthetic import SyntheticVectors
from lexlip.bench.distractors import mixtures, recombined
from lexlip.data import open_source
from lexlip.errors import ConfigError, DataError
from lexlip.models.lexlip import LexLIP
from lexlip.queries.photo_vectors import PhotoVectors, encode_captions
from lexlip.sparse.quantize import quantize
from lexlip.sparse.top_words import topk
from tests.benchmarks.corpus.small_corpus import SMALL, same
from tests.tiny import tiny_dense


@pytest.fixture(autouse=True)
def small_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(synthetic.SHAPES, "mini", SMALL)
    monkeypatch.setattr(synthetic, "BLOCK", 512)


def test_synthetic_vectors(tmp_path: Path) -> None:
    corpus, made = prepare_synthetic(tmp_path / "new", "mini", 200, 8, 20, 12, seed=3, dense=True)
    vectors = SyntheticVectors(SMALL, seed=3)
    (documents,) = vectors.documents(200, 8)
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
    corpus, made = prepare_encoded(tmp_path / "corpus", model, source, {}, 4, 8, 5, 3, seed=0)
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
        prepare_encoded(
            tmp_path,
            LexLIP.from_pretrained(model_folder),
            open_source(str(photos)),
            {},
            None,
            8,
            5,
            3,
            seed=0,
        )


SENTENCES = [
    f"{number} {thing}" for number in ("one", "two", "three") for thing in ("dogs", "cats", "men on ice")
]


def test_captions_are_documents_or_queries(tmp_path: Path, model_folder: Path) -> None:
    model = LexLIP.from_pretrained(model_folder)
    files = {"a.tsv": SENTENCES[:5], "b.txt": SENTENCES[3:]}  # two are in both
    corpus, made = prepare_encoded(tmp_path, model, None, files, None, 8, 4, 8, seed=1)
    order = np.random.default_rng(1).permutation(len(SENTENCES))
    documents = [SENTENCES[row] for row in order[4:]]
    assert same(corpus.rows(0, 5), quantize(topk(encode_captions(model, documents), 8)))
    assert same(
        corpus.queries, quantize(topk(encode_captions(model, [SENTENCES[row] for row in order[:4]]), 8))
    )
    assert made["source"] == "a.tsv, b.txt"
    assert made["captions"] == 9
    with pytest.raises(ConfigError, match="9 captions, and --queries takes 9 of them: give fewer queries"):
        prepare_encoded(tmp_path, model, None, files, None, 8, 9, 8, seed=1)


def test_photos_come_before_captions_and_mixtures_after_them(
    tmp_path: Path, photos: Path, model_folder: Path
) -> None:
    model, source = LexLIP.from_pretrained(model_folder), open_source(str(photos))
    asked = 8, 4, 8
    corpus, made = prepare_encoded(tmp_path / "grown", model, source, {"a": SENTENCES}, 60, *asked, seed=1)
    ((_, of_photos),) = PhotoVectors(model, source)
    order = np.random.default_rng(1).permutation(len(SENTENCES))[4:]
    of_captions = encode_captions(model, [SENTENCES[row] for row in order])
    real = csr_matrix(vstack([topk(of_photos, 8), topk(of_captions, 8)], format="csr"))
    assert corpus.sizes.documents == 60
    assert same(corpus.rows(0, 11), quantize(real))
    (mixed,) = recombined(real, 49, 1)
    assert same(corpus.rows(11, 60), quantize(topk(mixed, 8)))
    assert made["source"] == f"{photos}, a"
    first, _ = prepare_encoded(tmp_path / "first", model, source, {"a": SENTENCES}, 3, *asked, seed=1)
    assert same(first.rows(0, 3), quantize(real[:3]))
    most = (1 + MIXTURES) * 11
    with pytest.raises(ConfigError, match=f"each of 11 photos and captions.*--docs {most} at most"):
        prepare_encoded(tmp_path / "large", model, source, {"a": SENTENCES}, most + 1, *asked, seed=1)


def test_dense_vectors_of_the_same_documents_and_whose_caption_a_query_is(
    tmp_path: Path, photos: Path, model_folder: Path
) -> None:
    model, dense = LexLIP.from_pretrained(model_folder), tiny_dense()
    source = open_source(str(photos))
    corpus, made = prepare_encoded(
        tmp_path, model, source, {}, 40, 8, 4, 3, seed=1, asked_photos=3, dense=dense
    )
    assert made["dense"] == dense.identity
    ((ids, real),) = PhotoVectors(dense, source)
    unit = real.toarray() / np.linalg.norm(real.toarray(), axis=1, keepdims=True)
    np.testing.assert_allclose(corpus.dense[: len(ids)], unit, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(corpus.dense, axis=1), 1, rtol=1e-5)
    ((_, sparse),) = PhotoVectors(model, source)
    ((_, pairs),) = mixtures(topk(sparse, 8), 40 - len(ids), 1)
    sums = corpus.dense[pairs[:, 0]] + corpus.dense[pairs[:, 1]]
    cosines = (sums * corpus.dense[len(ids) :]).sum(axis=1) / np.linalg.norm(sums, axis=1)
    np.testing.assert_allclose(cosines, 1, rtol=1e-5)
    assert corpus.wanted.max() < 3
    for wanted, query, words in zip(corpus.wanted, corpus.dense_queries, corpus.queries, strict=True):
        (caption,) = source.items[int(wanted)].captions
        vector = encode_captions(dense, [caption]).toarray()[0]
        np.testing.assert_allclose(query, vector / np.linalg.norm(vector), atol=1e-6)
        assert same(csr_matrix(words), quantize(topk(encode_captions(model, [caption]), 3)))
