from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lexlip.data import Scenes, open_source
from lexlip.encoding import PhotoVectors
from lexlip.errors import DataError
from lexlip.evaluation.evaluate import evaluate
from lexlip.models.lexlip import LexLIP
from lexlip.search.engines import exact_engine, temporary_lucene_engine
from lexlip.sparse.topk import topk
from tests.reference.ranking import naive_recall
from tests.tiny import tiny_model

SCENES = Scenes(12, seed=0)


@pytest.fixture(scope="module")
def model() -> LexLIP:
    return tiny_model()


def brute_force(queries: np.ndarray, documents: np.ndarray) -> list[list[int]]:
    """Documents by cosine, best first; only those that share a term."""
    lengths = np.linalg.norm(documents, axis=1)
    scores = queries @ (documents / np.maximum(lengths, 1e-12)[:, None]).T
    return [[int(d) for d in np.argsort(-row, kind="stable") if row[d] > 0] for row in scores]


@pytest.mark.parametrize("terms", [None, 4])
@pytest.mark.parametrize("encoder", ["network", "words"])
def test_recall_of_both_directions(model: LexLIP, encoder, terms: int | None) -> None:
    report = evaluate(model, SCENES, exact_engine, topk_terms=terms, query_encoder=encoder, workers=0)
    [[ids, images]] = list(PhotoVectors(model, SCENES, workers=0))
    texts = [caption for item in SCENES.items for caption in item.captions]
    captions = model.encode_text(texts, encoder)
    owners = np.repeat(np.arange(12), 5)
    t2i = brute_force(captions.toarray(), topk(images, terms).toarray())
    i2t = brute_force(images.toarray(), topk(captions, terms).toarray())
    for k in (1, 5, 10):
        assert report.t2i[f"R@{k}"] == pytest.approx(naive_recall(t2i, [{o} for o in owners], k))
        right = [set(np.flatnonzero(owners == image)) for image in range(12)]
        assert report.i2t[f"R@{k}"] == pytest.approx(naive_recall(i2t, right, k))
    assert (report.images, report.captions) == (12, 60) == (len(ids), len(texts))
    assert report.terms_image == pytest.approx(images.nnz / 12)  # before top-K
    assert report.terms_text == pytest.approx(captions.nnz / 60)
    assert report.mean_recall == pytest.approx(np.mean([*report.t2i.values(), *report.i2t.values()]))
    assert report.to_dict()["words@10"] == report.words_at_10


def test_lucene_and_brute_force_agree(model: LexLIP) -> None:
    lucene: partial[AbstractContextManager] = partial(temporary_lucene_engine, words=model.vocabulary.words)
    exact = evaluate(model, SCENES, exact_engine, workers=0)
    found = evaluate(model, SCENES, lucene, workers=0)
    for ours, theirs in ((found.t2i, exact.t2i), (found.i2t, exact.i2t)):
        assert ours == pytest.approx(theirs, abs=10)  # near ties of an untrained model


def test_photos_without_captions_are_distractors(model: LexLIP, tmp_path: Path) -> None:
    for index in range(4):
        SCENES.image(index).save(tmp_path / f"{index}.png")
    (tmp_path / "0.txt").write_text("\n".join(SCENES.items[0].captions))
    (tmp_path / "4.png").write_bytes(b"no photo")
    (tmp_path / "4.txt").write_text("never seen\n")
    report = evaluate(model, open_source(tmp_path), exact_engine, workers=0)
    assert (report.images, report.captions) == (4, 5)
    assert [(skip.id, skip.reason) for skip in report.skipped] == [("4.png", "not an image")]


def test_nothing_to_evaluate_on(model: LexLIP, tmp_path: Path) -> None:
    Image.new("RGB", (40, 30)).save(tmp_path / "a.jpg")
    with pytest.raises(DataError, match="has no photo with captions to evaluate on"):
        evaluate(model, open_source(tmp_path), exact_engine, workers=0)
    (tmp_path / "a.txt").write_text("a photo\n")
    (tmp_path / "a.jpg").write_bytes(b"")
    with pytest.raises(DataError, match="has no photo with captions to evaluate on"):
        evaluate(model, open_source(tmp_path), exact_engine, workers=0)
