from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lexlip.bench.tables import stages as module
from lexlip.bench.tables.first_stages import TableSettings
from lexlip.bench.tables.row import Evaluation
from lexlip.bench.tables.stages import Plan, measure_evaluations
from lexlip.data import Scenes
from lexlip.errors import ModelError
from lexlip.models.one_transformer import OneTransformer
from tests.bench.tables.some_table import some_table
from tests.tiny import tiny_model, tiny_stage

SCENES = Scenes(12, seed=0)


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tiny_model().save(tmp_path / "words")
    for kind in ("be", "ce", "joint"):
        tiny_stage(kind).save(tmp_path / kind)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plan(*models: str, **changes: Any) -> Plan:
    table = some_table(measure="evaluations", recall=False)
    return Plan(**{"table": table, "models": models, "settings": TableSettings(workers=0), **changes})


@pytest.mark.usefixtures("models")
def test_rows_and_their_parts() -> None:
    rows = measure_evaluations(plan("words", "joint", reranker="ce", ks=(2, 4), sizes=(5, 12)), SCENES)
    assert [(row.model, row.reranker, row.k, row.photos) for row in rows] == [
        (model, reranker, k, photos)
        for photos in (5, 12)
        for model, reranker, k in (
            *(("ce", None, None), ("words", None, None), ("words", "ce", 2), ("words", "ce", 4)),
            *(("joint", None, None), ("joint", "joint", 2), ("joint", "joint", 4)),
        )
    ]
    taken = [row.evaluation for row in rows]
    for row, each in zip(rows, taken, strict=True):
        assert each is not None
        assert each.extrapolated is None
        assert (each.rerank > 0) == (row.documents == "pairs" or row.k is not None)
        assert (each.search > 0) == (row.documents != "pairs")
        assert each.total == pytest.approx(each.encode + each.search + each.rerank)
    assert taken[1] is not None
    assert taken[2] is not None
    assert taken[2].encode > taken[1].encode  # photos run through both models
    assert taken[2].search == taken[1].search


@pytest.mark.usefixtures("models")
def test_some_pairs_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 12 photos and 60 captions, 100 of 720."""
    seen = []
    plain = OneTransformer.score_pairs

    def score(self: OneTransformer, photos: Any, texts: list[str], pairs: np.ndarray) -> np.ndarray:
        seen.append((len(texts), len(pairs), len({(texts[text], photo) for text, photo in pairs.tolist()})))
        return plain(self, photos, texts, pairs)

    monkeypatch.setattr(OneTransformer, "score_pairs", score)
    monkeypatch.setattr(module, "PAIRS", 100)
    ce, _, _ = measure_evaluations(plan("be", reranker="ce", ks=(2,), sizes=(12,)), SCENES)
    assert seen[0][1] == 100
    assert ce.evaluation is not None
    assert ce.evaluation.extrapolated == 12


def test_more_photos_than_there_are_are_extrapolated(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []
    plain = module._evaluated

    def measure(chosen: Plan, source: Any) -> Any:
        measured.append(len(source))
        return plain(chosen, source)

    monkeypatch.setattr(module, "_evaluated", measure)
    rows = measure_evaluations(plan("be", reranker="ce", ks=(2,), sizes=(12, 24, 120)), SCENES)
    assert measured == [12]  # once
    for first, row, times in zip(rows[:3] * 2, rows[3:], [2] * 3 + [10] * 3, strict=True):
        before, after = first.evaluation, row.evaluation
        assert before is not None
        of_pairs = times**2 if row.documents == "pairs" else times
        assert after == Evaluation(
            encode=before.encode * times,
            search=before.search * times**2,
            rerank=before.rerank * of_pairs,
            extrapolated=12,
        )
        assert row.photos == 12 * times


def test_what_is_missing_is_found_before_the_work(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "measure_first_stages", pytest.fail)
    with pytest.raises(ModelError, match="no model 'maxi'"):
        measure_evaluations(plan("be", "maxi", sizes=(5,)), SCENES)
