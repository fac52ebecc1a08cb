from pathlib import Path

import numpy as np
import pytest
import torch

from lexlip.bench.tables import reranker as module
from lexlip.bench.tables.reranker import TableReranker, owner_of
from lexlip.bench.tables.settings import TableSettings
from lexlip.data import Scenes
from lexlip.errors import ModelError
from lexlip.measure.evaluate import Ranking, Report, evaluate
from lexlip.measure.pairs import rerank
from lexlip.measure.pool import embed_pool
from lexlip.search.engines.exact import exact_engine
from tests.tiny import tiny_model, tiny_stage

SCENES = Scenes(9, seed=0)
IDS = [item.id for item in SCENES.items]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "ce"
    tiny_stage("ce").save(folder)
    return folder


@pytest.fixture
def reranker(folder: Path) -> TableReranker:
    return TableReranker(str(folder), SCENES, TableSettings(workers=0))


@pytest.fixture(scope="module")
def first() -> Report:
    return evaluate(tiny_model(), SCENES, exact_engine, workers=0)


def test_photos_of_queries_and_answers_are_wanted(reranker: TableReranker, first: Report) -> None:
    t2i = Ranking([f"{IDS[1]}#0"], [[IDS[2], IDS[5]]], [np.array([2.0, 1.0])], [{IDS[1]}])
    i2t = Ranking([IDS[3]], [[f"{IDS[7]}#4"]], [np.array([1.0])], [{f"{IDS[3]}#0"}])
    reranker.want(first.with_rankings({"t2i": t2i, "i2t": i2t}))
    assert reranker.wanted == {IDS[row] for row in (1, 2, 3, 5, 7)}
    assert reranker.tokens.pool.image_ids == [IDS[row] for row in (1, 2, 3, 5, 7)]


def test_reports_are_those_of_rerank(reranker: TableReranker, first: Report) -> None:
    reranker.want(first)
    found = reranker.reports(first, (2, 5), ("none", "norm_add"), 0.3)
    assert list(found) == [(2, "none"), (2, "norm_add"), (5, "none"), (5, "norm_add")]
    tokens = embed_pool(reranker.model, SCENES, workers=0)
    for (k, fusion), report in found.items():
        expected = rerank(reranker.model, tokens, first, k, fusion, 0.3)
        assert (report.t2i, report.i2t) == (expected.t2i, expected.i2t)
        for way, ranking in report.rankings.items():
            assert ranking.found == expected.rankings[way].found


def test_each_pair_is_scored_once(
    reranker: TableReranker, first: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored = []
    plain = type(reranker.model).score_pairs

    def count(model: object, photos: torch.Tensor, texts: list[str], pairs: np.ndarray) -> np.ndarray:
        scored.append(len(pairs))
        odds: np.ndarray = plain(reranker.model, photos, texts, pairs)
        return odds

    reranker.want(first)
    monkeypatch.setattr(type(reranker.model), "score_pairs", count)
    reranker.reports(first, (2, 3), ("none", "add"), 0.5)
    candidates = sum(len(found[:3]) for ranking in first.rankings.values() for found in ranking.found)
    assert sum(scored) == candidates


def test_what_it_is_timed_with(
    reranker: TableReranker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was wanted: then some photos from all over the pool are taken."""
    monkeypatch.setattr(module, "TOKENS", 3)
    saved = reranker.save_tokens(tmp_path)
    assert (saved.model, saved.file.parent) == (str(reranker.folder), tmp_path)
    assert reranker.tokens.pool.image_ids == [IDS[0], IDS[3], IDS[6]]
    photos = np.load(saved.file)
    np.testing.assert_array_equal(photos, reranker.tokens.photos.numpy())
    assert photos.shape == (3, 17, 16)
    assert reranker.photo_bytes == photos[0].nbytes == 17 * 16 * 2


def test_a_first_stage_cannot_rerank(model_folder: Path) -> None:
    with pytest.raises(ModelError, match="is a first stage and cannot rerank"):
        TableReranker(str(model_folder), SCENES, TableSettings())


def test_a_caption_s_photo() -> None:
    assert [owner_of(id) for id in ("a.jpg#0", "x#y.jpg#12")] == ["a.jpg", "x#y.jpg"]
