import shutil
from pathlib import Path

import numpy as np
import pytest

from anserini_bridge import BridgeError, CorruptIndex, UnknownId
from lexlip.data import decode
from lexlip.errors import ModelError
from lexlip.models.dense import Dense
from lexlip.search.stages.dense import DenseStage
from tests.search.indexes import Indexed, index_dense, open_vectors
from tests.tiny import CAPTIONS, tiny_dense

IDS = [f"{number}.jpg" for number in range(6)]


@pytest.fixture(scope="module")
def stage(indexed: Indexed) -> DenseStage:
    return DenseStage(indexed.dense)


def products(indexed: Indexed) -> np.ndarray:
    """Cosines of the captions and the six photos, [6, 6], one by one, with a model in which nothing is
    folded."""
    model = Dense.from_pretrained(indexed.dense_model)
    size = model.config.image.size
    rows = [model.encode_image([decode((indexed.photos / id).read_bytes(), size)]).toarray()[0] for id in IDS]
    texts = [model.encode_text([caption]).toarray()[0] for caption in CAPTIONS]
    photos, captions = (np.array([row / np.linalg.norm(row) for row in vectors]) for vectors in (rows, texts))
    scores: np.ndarray = captions @ photos.T
    return scores


def test_scores_are_cosines(stage: DenseStage, indexed: Indexed) -> None:
    queries = [stage.encode(caption) for caption in CAPTIONS]
    ids, scores = stage.search(queries, 4)
    for found, points, row in zip(ids, scores, products(indexed), strict=True):
        order = np.argsort(-row)[:4]
        np.testing.assert_allclose(points, row[order], atol=1e-4)
        of = dict(zip(IDS, row, strict=True))
        np.testing.assert_allclose(points, [of[id] for id in found], atol=1e-4)


def test_hits_have_no_words(stage: DenseStage) -> None:
    queries = [stage.encode(caption) for caption in CAPTIONS[:2]]
    ids, _ = stage.search(queries, 3)
    for row, query in enumerate(queries):
        assert (stage.matches(query, ids[row]), stage.terms(query)) == ([{}] * 3, {})
    assert stage.unknown("a quokka") == []


def test_pictures_are_encoded_by_the_same_model(stage: DenseStage, indexed: Indexed) -> None:
    photo = decode((indexed.photos / "4.jpg").read_bytes(), stage.encoder.config.image.size)
    (ids,), (scores,) = stage.search([stage.encoder.encode_image([photo])], 6)
    assert scores[ids.index("4.jpg")] == pytest.approx(1, abs=1e-4)


def test_it_moves_to_a_new_index_when_told(indexed: Indexed, photos: Path, tmp_path: Path) -> None:
    index = index_dense(indexed.dense_model, photos, tmp_path / "index")
    stage = DenseStage(index)
    assert not stage.refresh()
    (photos / "0.jpg").unlink()
    index_dense(indexed.dense_model, photos, index, ann="hnsw")
    assert len(stage.search([stage.encode("a dog")], 6)[0][0]) == 6
    assert stage.refresh()
    assert len(stage.search([stage.encode("a dog")], 6)[0][0]) == 5
    assert (stage.metadata.documents, stage.metadata.ann) == (5, "hnsw")
    assert not stage.refresh()
    stage.close()


def test_what_an_index_holds(indexed: Indexed) -> None:
    metadata, vectors = open_vectors(indexed.dense)
    model = Dense.from_pretrained(indexed.dense_model)
    assert (metadata.encoder, metadata.model_kind) == (model.identity, "dense")
    assert (metadata.metric, metadata.ann, metadata.dimensions) == ("cosine", "flat", 16)
    assert vectors.ids == IDS
    with pytest.raises(BridgeError, match="kind"):
        open_vectors(indexed.words)


def test_what_cannot_be_opened(indexed: Indexed, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="has no words: use --query-encoder network"):
        DenseStage(indexed.dense, query_encoder="words")
    tiny_dense(seed=1).save(tmp_path / "other")
    with pytest.raises(ModelError, match="give the model that made it"):
        DenseStage(indexed.dense, str(tmp_path / "other"))
    shutil.copytree(indexed.dense, tmp_path / "index")
    next((tmp_path / "index").glob("data-*/ids.json")).unlink()
    with pytest.raises(CorruptIndex, match="is damaged"):
        DenseStage(tmp_path / "index")


def test_a_photo_finds_itself_and_those_like_it(stage: DenseStage) -> None:
    (ids,), (scores,) = stage.search([stage.like("3.jpg")], 6)
    assert scores[ids.index("3.jpg")] == pytest.approx(max(scores)) == pytest.approx(1)
    with pytest.raises(UnknownId, match="no document with the id 'x'"):
        stage.like("x")
