from dataclasses import replace
from pathlib import Path

import pytest

from lexlip.bench.tables.first_stages import first_stage_folder, measure_first_stages, reranker_folder
from lexlip.bench.tables.settings import TableSettings
from lexlip.data import Scenes
from lexlip.data.subset import Subset
from lexlip.errors import ModelError
from lexlip.measure.bm25_recall import evaluate_bm25
from lexlip.measure.evaluate import evaluate
from lexlip.models.load import compares_pairs, load_model, load_reranker
from lexlip.search.open_engine import engine_for
from tests.reference.ranking import naive_recall
from tests.tiny import tiny_dense, tiny_stage
from tests.training.run_folders import write_run

SCENES = Scenes(12, seed=0)


def test_each_is_what_evaluate_says(model_folder: Path, tmp_path: Path) -> None:
    tiny_dense().save(tmp_path / "cls")
    names = [str(model_folder), str(tmp_path / "cls"), "bm25"]
    settings = TableSettings(topks=(None, 4), workers=0)
    words, cut, dense, bm25 = measure_first_stages(names, SCENES, settings, short=True)
    assert [stage.documents for stage in (words, cut, dense, bm25)] == ["all", "top-4", "dense", "captions"]
    assert [stage.engine for stage in (words, cut, dense, bm25)] == ["lucene", "lucene", "flat", "bm25"]
    assert words.vectors is cut.vectors  # encoded once
    assert bm25.vectors is None
    model = load_model(model_folder)
    assert cut.report == evaluate(model, SCENES, engine_for(model)[1], 4, workers=0)
    assert bm25.report == evaluate_bm25(SCENES)
    assert cut.report.short_queries is not None


def test_a_report_for_each_fold(model_folder: Path) -> None:
    names, settings = [str(model_folder), "bm25"], TableSettings(workers=0)
    model = load_model(model_folder)
    words, whole, bm25, all_bm25 = measure_first_stages(names, SCENES, settings, folds=(3, 1))
    parts = [Subset(SCENES, range(start, start + 4)) for start in (0, 4, 8)]
    assert list(words.reports) == [
        replace(
            evaluate(model, part, engine_for(model)[1], workers=0),
            terms_kept=report.terms_kept,
            short_queries=None,  # it would count as time of searching
        )
        for part, report in zip(parts, words.reports, strict=True)
    ]
    assert list(bm25.reports) == [evaluate_bm25(part, short=False) for part in parts]
    assert [len(stage.reports) for stage in (whole, all_bm25)] == [1, 1]
    assert words.report.t2i["R@1"] == pytest.approx(sum(report.t2i["R@1"] for report in words.reports) / 3)
    assert words.seconds[0] == whole.seconds[0] > 0
    assert all(stage.seconds[1] > 0 for stage in (words, whole, bm25))
    assert bm25.seconds[0] == 0


def test_a_cross_encoder_as_a_vldeformer(tmp_path: Path) -> None:
    tiny_stage("ce").save(tmp_path / "ce")
    ce = str(tmp_path / "ce")
    [stage] = measure_first_stages([ce], SCENES, TableSettings(workers=0), decompose=True)
    assert stage.vectors is not None
    assert stage.vectors.model.kind == "vldeformer"
    assert (abs(stage.vectors.images.toarray()) <= 1).all()  # of the tanh
    assert first_stage_folder(ce, decompose=True) == tmp_path / "ce"
    with pytest.raises(ModelError, match="no model 'maxi'"):
        first_stage_folder("maxi", decompose=True)


def test_some_photos_are_queries(model_folder: Path) -> None:
    for name in (str(model_folder), "bm25"):
        [stage] = measure_first_stages([name], SCENES, TableSettings(workers=0), queries=3)
        queries = [item.id for item in SCENES.items[:3]]
        t2i, i2t = stage.report.rankings["t2i"], stage.report.rankings["i2t"]
        assert {id.rpartition("#")[0] for id in t2i.queries} == set(queries)
        assert i2t.queries == queries
        assert stage.report.images == 12
        assert {id for found in t2i.found for id in found} - set(queries)  # others are found
        assert stage.report.t2i["R@5"] == naive_recall(t2i.found, t2i.relevant, 5)


def test_what_a_model_can_be(tmp_path: Path, model_folder: Path) -> None:
    for kind in ("ce", "joint"):
        tiny_stage(kind).save(tmp_path / kind)
    joint, ce = str(tmp_path / "joint"), str(tmp_path / "ce")
    assert first_stage_folder("bm25") == "bm25"
    assert first_stage_folder(joint) == reranker_folder(joint) == tmp_path / "joint"
    assert [compares_pairs(name) for name in (ce, joint, model_folder, "bm25")] == [True, True, False, False]
    assert load_reranker(reranker_folder(ce)).kind == "ce"
    run = write_run(tmp_path / "run", {}, checkpoint=tmp_path / "ce")
    assert reranker_folder(str(run)) == run / "best"
    with pytest.raises(ModelError, match="is a ce model, which has no vectors to find photos by"):
        first_stage_folder(ce)
    with pytest.raises(ModelError, match="is a first stage and cannot rerank"):
        reranker_folder(str(model_folder))


def test_all_must_be_there_before_the_first_is_measured(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lexlip.bench.tables.first_stages.load_model", pytest.fail)
    with pytest.raises(ModelError, match="no model 'maxi'"):
        list(measure_first_stages([str(model_folder), "maxi"], SCENES, TableSettings()))
