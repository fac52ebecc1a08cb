import json
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.sparse import csr_matrix

from lexlip.data import Scenes, open_source
from lexlip.errors import ConfigError, DataError, ModelError
from lexlip.measure import evaluate as module
from lexlip.measure.evaluate import evaluate, measure
from lexlip.measure.pool import CaptionedPool, PoolVectors, as_queries, encode_pool
from lexlip.measure.recalls import Report
from lexlip.models.contract import QueryEncoder
from lexlip.models.lexlip import LexLIP
from lexlip.queries.photo_vectors import PhotoVectors
from lexlip.search.engines.exact import engine_for, exact_engine
from lexlip.search.engines.lucene import temporary_lucene_engine
from lexlip.sparse.balance import usual_scheme
from lexlip.sparse.rows import unit_length
from lexlip.sparse.top_words import topk
from tests.measure.pools import NoModel
from tests.reference.ranking import naive_recall
from tests.tiny import balanced, tiny_balanced, tiny_dense, tiny_model

SCENES = Scenes(12, seed=0)


@pytest.fixture(scope="module")
def model() -> LexLIP:
    return tiny_model()


def brute_force(queries: np.ndarray, documents: np.ndarray) -> list[list[int]]:
    """Documents by cosine, best first; only those that share a term."""
    lengths = np.linalg.norm(documents, axis=1)
    scores = queries @ (documents / np.maximum(lengths, 1e-12)[:, None]).T
    return [[int(d) for d in np.argsort(-row, kind="stable") if row[d] > 0] for row in scores]


@pytest.mark.parametrize("kept", [None, 4])
@pytest.mark.parametrize("encoder", ["network", "words"])
def test_recall_of_both_directions(model: LexLIP, encoder: QueryEncoder, kept: int | None) -> None:
    report = evaluate(model, SCENES, exact_engine, topk_words=kept, query_encoder=encoder, workers=0)
    [[ids, images]] = list(PhotoVectors(model, SCENES, batch=12, workers=0))
    texts = [caption for item in SCENES.items for caption in item.captions]
    captions = model.encode_text(texts, encoder)
    owners = np.repeat(np.arange(12), 5)
    queries = as_queries(model, texts, captions)
    t2i = brute_force(queries.toarray(), topk(images, kept).toarray())
    i2t = brute_force(images.toarray(), topk(captions, kept).toarray())
    for k in (1, 5, 10):
        assert report.t2i[f"R@{k}"] == pytest.approx(naive_recall(t2i, [{o} for o in owners], k))
        right = [set(np.flatnonzero(owners == image)) for image in range(12)]
        assert report.i2t[f"R@{k}"] == pytest.approx(naive_recall(i2t, right, k))
    assert (report.images, report.captions) == (12, 60) == (len(ids), len(texts))
    assert report.terms_image == pytest.approx(images.nnz / 12)  # before top-K
    assert report.terms_text == pytest.approx(captions.nnz / 60)
    assert report.mean_recall == pytest.approx(np.mean([*report.t2i.values(), *report.i2t.values()]))
    assert report.to_dict()["words@10"] == report.words_at_10
    assert report.to_dict()["mean_recall"] == report.mean_recall
    assert report.terms_kept == topk(images, kept).nnz / 12
    assert report == evaluate(model, SCENES, exact_engine, kept, encoder, workers=0)  # the same again


def test_balanced_documents() -> None:
    """The same through Lucene, by brute force, and by the formula; queries are not balanced."""
    model = tiny_balanced()
    assert model.balance is not None
    report = evaluate(
        model, SCENES, engine_for(model, "exact", "balanced")[1], 8, workers=0, scheme="balanced"
    )
    through_lucene = engine_for(model, "lucene", "balanced")[1]
    whole_numbers = evaluate(model, SCENES, through_lucene, 8, workers=0, scheme="balanced")
    assert whole_numbers.t2i == pytest.approx(report.t2i, abs=2)  # one of 60 captions
    [[_, images]] = list(PhotoVectors(model, SCENES, batch=12, workers=0))
    texts = [caption for item in SCENES.items for caption in item.captions]
    captions = model.encode_text(texts)
    bank = model.balance.photos
    documents = balanced(bank, images, 8)
    scores = unit_length(as_queries(model, texts, captions)).toarray() @ documents.T
    for found, got, row in zip(
        report.rankings["t2i"].found, report.rankings["t2i"].scores, scores, strict=True
    ):
        np.testing.assert_allclose(got, np.sort(row[row > 0])[::-1][:10], rtol=1e-4)
        assert len(found) == len(got)
    bank = model.balance.captions
    documents = balanced(bank, captions, 8)
    scores = (images.toarray() / np.linalg.norm(images.toarray(), axis=1)[:, None]) @ documents.T
    for got, row in zip(report.rankings["i2t"].scores, scores, strict=True):
        np.testing.assert_allclose(got, np.sort(row[row > 0])[::-1][:10], rtol=1e-4)
    with pytest.raises(ConfigError, match="no captions to balance with"):
        evaluate(tiny_model(), SCENES, through_lucene, workers=0, scheme="balanced")


@pytest.mark.parametrize("kept", [None, 4])
def test_a_model_that_compares_by_dot_product(kept: int | None) -> None:
    """Through an index as by brute force: both rank as the products of whole vectors do."""
    model = tiny_model(metric="dot")
    scheme = usual_scheme(model.balance, model.metric)
    exact, lucene = (engine_for(model, name, scheme)[1] for name in ("exact", "lucene"))
    report = evaluate(model, SCENES, exact, kept, workers=0, scheme=scheme)
    [[ids, images]] = list(PhotoVectors(model, SCENES, batch=12, workers=0))
    texts = [caption for item in SCENES.items for caption in item.captions]
    captions = model.encode_text(texts)
    products = {
        "t2i": as_queries(model, texts, captions).toarray() @ topk(images, kept).toarray().T,
        "i2t": images.toarray() @ topk(captions, kept).toarray().T,
    }
    for direction, scores in products.items():
        for got, row in zip(report.rankings[direction].scores, scores, strict=True):
            np.testing.assert_allclose(got, np.sort(row[row > 0])[::-1][:10], rtol=1e-4)
    through_index = evaluate(model, SCENES, lucene, kept, workers=0, scheme=scheme)
    for found, row in zip(through_index.rankings["t2i"].found, products["t2i"], strict=True):
        best = np.sort(row[row > 0])[::-1][:10]
        np.testing.assert_allclose(
            [row[ids.index(id)] for id in found], best, rtol=0.01
        )  # as far as it rounds
    assert through_index.t2i == pytest.approx(report.t2i, abs=2)  # one of 60 captions
    by_cosine = evaluate(model, SCENES, exact_engine, kept, workers=0)
    assert by_cosine.rankings["t2i"].found != report.rankings["t2i"].found


def test_recalls_by_hand() -> None:
    """Three photos, b without a caption; the first caption of a finds b, then a, and that of c finds c."""
    pool = CaptionedPool(
        image_ids=["a", "b", "c"],
        text_ids=["a#0", "a#1", "c#0"],
        texts=["", "", ""],
        owners=np.array([0, 0, 2]),
        text_queries=3,
        skipped=[],
    )
    model: Any = NoModel()
    encoded = PoolVectors(
        pool,
        model,
        images=csr_matrix(np.array([[1, 0, 0], [2, 1, 0], [0, 0, 1.0]])),
        captions=csr_matrix(np.array([[2, 1, 0], [0, 0, 3], [0, 0, 1.0]])),
    )
    report = measure(encoded, exact_engine)
    t2i, i2t = report.rankings["t2i"], report.rankings["i2t"]
    assert (t2i.queries, t2i.found) == (["a#0", "a#1", "c#0"], [["b", "a"], ["c"], ["c"]])
    assert t2i.relevant == [{"a"}, {"a"}, {"c"}]
    assert (i2t.queries, i2t.found) == (["a", "c"], [["a#0"], ["a#1", "c#0"]])
    assert i2t.relevant == [{"a#0", "a#1"}, {"c#0"}]
    assert report.t2i == pytest.approx({"R@1": 100 / 3, "R@5": 200 / 3, "R@10": 200 / 3})
    assert report.i2t == {"R@1": 50, "R@5": 100, "R@10": 100}
    assert report.mean_recall == pytest.approx((100 / 3 + 400 / 3 + 250) / 6)


def test_a_dense_model_has_recalls_but_no_words() -> None:
    model = tiny_dense()
    report = evaluate(model, SCENES, exact_engine, workers=0)
    [[_, images]] = list(PhotoVectors(model, SCENES, batch=12, workers=0))
    captions = model.encode_text([caption for item in SCENES.items for caption in item.captions])
    owners = np.repeat(np.arange(12), 5)
    t2i = cosine_order(captions.toarray(), images.toarray())
    i2t = cosine_order(images.toarray(), captions.toarray())
    right = [set(np.flatnonzero(owners == image)) for image in range(12)]
    for k in (1, 5, 10):
        assert report.t2i[f"R@{k}"] == pytest.approx(naive_recall(t2i, [{o} for o in owners], k))
        assert report.i2t[f"R@{k}"] == pytest.approx(naive_recall(i2t, right, k))
    nothing = (report.terms_image, report.terms_text, report.terms_kept, report.words_at_10)
    assert nothing == (None, None, None, None)
    assert all(len(found) == 10 for found in report.rankings["t2i"].found)
    assert json.loads(json.dumps(report.to_dict()))["words@10"] is None


def cosine_order(queries: np.ndarray, documents: np.ndarray) -> list[list[int]]:
    """All documents by cosine, best first."""
    scores = queries @ (documents / np.linalg.norm(documents, axis=1, keepdims=True)).T
    return [[int(d) for d in np.argsort(-row, kind="stable")] for row in scores]


def test_a_dense_model_keeps_no_top_k_and_has_no_word_weights() -> None:
    with pytest.raises(ModelError, match="a dense model has no words, so no top-4 of them can be kept"):
        evaluate(tiny_dense(), SCENES, exact_engine, topk_words=4, workers=0)
    with pytest.raises(ModelError, match="the dense model 'cls' has no words: use --query-encoder network"):
        evaluate(tiny_dense(), SCENES, exact_engine, query_encoder="words", workers=0)


def test_a_deeper_search_finds_the_same_first(model: LexLIP, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = encode_pool(model, SCENES, workers=0)
    ten = measure(encoded, exact_engine)
    monkeypatch.setattr(module, "QUERIES", 7)  # in several blocks
    all = measure(encoded, exact_engine, depth=60)
    assert (ten.t2i, ten.i2t) == (all.t2i, all.i2t)
    for way, longest in (("t2i", 12), ("i2t", 60)):
        firsts, wholes = ten.rankings[way], all.rankings[way]
        assert max(map(len, wholes.found)) == longest
        assert [found[:10] for found in wholes.found] == firsts.found
        assert wholes.queries == firsts.queries
        for scores, found in zip(wholes.scores, wholes.found, strict=True):
            assert len(scores) == len(found)
            assert list(scores) == sorted(scores, reverse=True)
    assert len(firsts.queries) == 12


def test_a_report_as_plain_values_and_back(model: LexLIP) -> None:
    report = evaluate(model, SCENES, exact_engine, topk_words=3, workers=0)
    plain = json.loads(json.dumps(report.to_dict()))
    assert Report.from_dict(plain).to_dict() == report.to_dict()
    for name in ("terms_kept", "mean_recall"):  # what older runs do not have
        del plain[name]
    older = Report.from_dict(plain)
    assert (older.terms_kept, older.mean_recall) == (report.terms_image, report.mean_recall)


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
    with pytest.raises(DataError, match="that can be read has a caption: give photos with captions"):
        evaluate(model, open_source(tmp_path), exact_engine, workers=0)
    (tmp_path / "a.txt").write_text("a photo\n")
    (tmp_path / "a.jpg").write_bytes(b"")
    with pytest.raises(DataError, match="that can be read has a caption: give photos with captions"):
        evaluate(model, open_source(tmp_path), exact_engine, workers=0)
