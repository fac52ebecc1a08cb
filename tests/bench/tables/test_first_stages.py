from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lexlip.bench.tables.first_stages import (
    TableSettings,
    first_stage_folder,
    fold_sources,
    fold_vectors,
    mean_report,
    measure_first_stages,
    reranker_folder,
    topk_name,
)
from lexlip.data import Scenes
from lexlip.data.source import Subset
from lexlip.errors import DataError, ModelError
from lexlip.measure.bm25_recall import evaluate_bm25
from lexlip.measure.evaluate import evaluate
from lexlip.measure.pool import PoolVectors
from lexlip.measure.recalls import Ranking
from lexlip.models.load import compares_pairs, load_model, load_reranker
from lexlip.search.engines.exact import engine_for
from tests.bench.tables.some_table import REPORT
from tests.measure.pools import make_pool, pool_of
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


VECTORS = make_pool(photos=11, queries=11)


def test_photos_are_divided_in_order_with_their_captions() -> None:
    parts = list(fold_vectors(VECTORS, 3))
    assert [part.pool.image_ids for part in parts] == [
        [f"{photo}.jpg" for photo in photos] for photos in (range(4), range(4, 8), range(8, 11))
    ]
    for name in ("text_ids", "texts"):
        assert [each for part in parts for each in getattr(part.pool, name)] == getattr(VECTORS.pool, name)
    for name in ("images", "captions"):
        together = np.concatenate([getattr(part, name).toarray() for part in parts])
        assert (together == getattr(VECTORS, name).toarray()).all()
    for part in parts:
        assert part.pool.all_are_queries
        owners = [part.pool.image_ids[owner] for owner in part.pool.owners]
        assert owners == [id.partition("#")[0] for id in part.pool.text_ids]


def brute_force(vectors: PoolVectors, photos: range, k: int) -> float:
    """R@k of captions of some photos that search these photos alone, in percent."""
    images = vectors.images.toarray()[photos.start : photos.stop]
    images = images / np.linalg.norm(images, axis=1, keepdims=True)
    right = []
    for owner, caption in zip(vectors.pool.owners, vectors.captions.toarray(), strict=True):
        if owner in photos:
            best = np.argsort(-(images @ caption), kind="stable")[:k] + photos.start
            right.append(owner in best)
    return 100 * float(np.mean(right))


def test_recalls_are_means_over_pools_of_their_own() -> None:
    from lexlip.measure.evaluate import measure
    from lexlip.search.engines.exact import exact_engine

    vectors = make_pool(photos=40, queries=40)
    reports = [measure(part, exact_engine, short=False) for part in fold_vectors(vectors, 4)]
    mean = mean_report(reports)
    for k in (1, 5):
        folds = [brute_force(vectors, range(start, start + 10), k) for start in range(0, 40, 10)]
        assert mean.t2i[f"R@{k}"] == pytest.approx(np.mean(folds))
        assert [report.t2i[f"R@{k}"] for report in reports] == pytest.approx(folds)
    assert (mean.images, mean.captions) == (10, 30)
    whole = measure(vectors, exact_engine, short=False)
    assert mean.t2i["R@1"] > whole.t2i["R@1"]  # fewer to confuse it with


def test_sources_are_divided_alike() -> None:
    scenes = Scenes(11, seed=0)
    parts = list(fold_sources(scenes, 3))
    assert [len(part) for part in parts] == [4, 4, 3]
    assert [item for part in parts for item in part.items] == list(scenes.items)


def test_the_mean_of_one_is_the_report() -> None:
    ranked = replace(REPORT, rankings={"t2i": Ranking([], [], [], [])})
    assert mean_report([ranked]) is ranked
    mean = mean_report([ranked, replace(REPORT, t2i={**REPORT.t2i, "R@1": 4.0})])
    assert (mean.t2i["R@1"], mean.t2i["R@5"], mean.i2t, mean.rankings) == (
        *(2.5, REPORT.t2i["R@5"], REPORT.i2t, {}),
    )


def test_folds_that_cannot_be() -> None:
    with pytest.raises(DataError, match="11 photos cannot be divided into 12 folds"):
        list(fold_vectors(VECTORS, 12))
    bare = replace(make_pool(photos=2, queries=2), pool=pool_of([0], ["dog"], photos=2, text_queries=1))
    with pytest.raises(DataError, match="one of 2 folds has no captions"):
        list(fold_vectors(bare, 2))


def test_names_of_what_is_kept() -> None:
    assert [topk_name(kept) for kept in (None, 32)] == ["all", "top-32"]


def test_progress_is_shown_if_it_is_wanted() -> None:
    for wanted in (False, True):
        with TableSettings(progress=wanted).bar("photos", 3, "photo") as bar:
            assert (bar.disable, bar.total) == (not wanted, 3)
