from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lexlip.data import Scenes, open_source
from lexlip.errors import ConfigError, ModelError
from lexlip.measure.evaluate import evaluate
from lexlip.bench.tables.first_stages import Settings
from lexlip.measure.pairs import embed_source, evaluate_pairs, rerank
from lexlip.bench.tables import reranker
from lexlip.evaluation.stages import rows as module
from lexlip.bench.tables.questions import make_questions
from lexlip.bench.response import Response
from lexlip.bench.tables.rows import Plan, Row, measure_rows
from lexlip.models.load import load_model, load_reranker
from lexlip.search.engines import engine_for
from tests.conftest import write_photos
from tests.training.run_folders import write_run
from tests.reference.ranking import naive_recall
from tests.tiny import tiny_model, tiny_stage

SCENES = Scenes(30, seed=0)


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    tiny_model().save("words")
    for seed, kind in enumerate(("be", "ce", "joint")):
        tiny_stage(kind, seed=seed).save(kind)
    return tmp_path


def plan(*models: str, **changes: Any) -> Plan:
    return Plan(models=models, settings=Settings(topks=(8,), workers=0), **changes)


def kinds(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    return [(row.model, row.reranker, row.k, row.fusion) for row in rows]


def test_recalls_are_those_of_evaluate_and_rerank(models: Path) -> None:
    rows = measure_rows(plan("words", "be", reranker="ce", ks=(3, 5)), make_questions(SCENES))
    assert kinds(rows) == [
        ("words", None, None, None),
        ("words", "ce", 3, "none"),
        ("words", "ce", 5, "none"),
        ("be", None, None, None),
        ("be", "ce", 3, "none"),
        ("be", "ce", 5, "none"),
    ]
    ce = load_reranker("ce")
    embedded = embed_source(ce, SCENES, workers=0)  # type: ignore[arg-type]
    for name, topk, (alone, three, five) in (("words", 8, rows[:3]), ("be", None, rows[3:])):
        model = load_model(name)
        report = evaluate(model, SCENES, engine_for(model)[1], topk, workers=0)
        assert (alone.report.t2i, alone.report.i2t) == (report.t2i, report.i2t)
        for k, row in ((3, three), (5, five)):
            again = rerank(ce, embedded, report, k)  # type: ignore[arg-type]
            assert (row.report.t2i, row.report.i2t) == (again.t2i, again.i2t)
        for way in ("t2i", "i2t"):
            ranking = five.report.rankings[way]
            for n in (1, 5, 10):
                assert getattr(five.report, way)[f"R@{n}"] == naive_recall(ranking.found, ranking.relevant, n)


def test_a_joint_model_reranks_itself_and_fusions_have_rows(models: Path) -> None:
    rows = measure_rows(
        plan("joint", "be", reranker="ce", fusions=("none", "add"), ks=(4,)), make_questions(SCENES, pairs=5)
    )
    assert kinds(rows) == [
        ("joint", None, None, None),
        ("joint", "joint", 4, "none"),
        ("joint", "joint", 4, "add"),
        ("be", None, None, None),
        ("be", "ce", 4, "none"),
        ("be", "ce", 4, "add"),
    ]


def test_some_photos_ask_among_all(models: Path) -> None:
    alone, reranked = measure_rows(plan("be", reranker="ce", ks=(4,)), make_questions(SCENES, pairs=6))
    everything = evaluate(load_model("be"), SCENES, engine_for(load_model("be"))[1], workers=0)
    asking = {SCENES.items[row].id for row in range(0, 30, 5)}
    for way in ("t2i", "i2t"):
        of_all, some = everything.rankings[way], alone.report.rankings[way]
        owner = (lambda id: id.rpartition("#")[0]) if way == "t2i" else (lambda id: id)
        rows = [row for row, query in enumerate(of_all.queries) if owner(query) in asking]
        assert some.queries == [of_all.queries[row] for row in rows]
        assert some.found == [of_all.found[row] for row in rows]
        assert some.relevant == [of_all.relevant[row] for row in rows]
        assert [set(row) for row in reranked.report.rankings[way].found] == [set(row) for row in some.found]
    assert (alone.photos, alone.report.images, alone.report.captions) == (30, 30, 150)


def test_only_what_is_needed_is_embedded_and_once(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    plain = reranker.embed_source

    def count(model: Any, source: Any, workers: int, progress: bool, indices: list[int]) -> Any:
        seen.append(indices)
        return plain(model, source, workers, progress, indices)

    monkeypatch.setattr(reranker, "embed_source", count)
    measure_rows(plan("words", "be", reranker="ce", ks=(2,)), make_questions(SCENES, pairs=1))
    [indices] = seen
    assert len(indices) < 30
    assert len(indices) == len(set(indices))


def test_the_cross_encoder_alone(models: Path) -> None:
    rows = measure_rows(
        plan("be", reranker="ce", pairs=True), make_questions(SCENES, pairs=5, captions=2, alone=True)
    )
    assert kinds(rows) == [("ce", None, None, None), ("be", None, None, None), ("be", "ce", 20, "none")]
    ce = load_reranker("ce")
    embedded = embed_source(ce, SCENES, 0, indices=range(0, 30, 6), captions=2)  # type: ignore[arg-type]
    report = evaluate_pairs(ce, embedded)  # type: ignore[arg-type]
    assert (rows[0].report.t2i, rows[0].report.i2t) == (report.t2i, report.i2t)
    assert (rows[0].documents, rows[0].photos) == ("pairs", 5)
    assert rows[2].report.t2i == report.t2i  # all five photos are candidates


def test_photos_that_cannot_be_read_stay_behind_what_is_reranked(models: Path) -> None:
    folder = write_photos(models / "photos", 6)
    for text in folder.glob("*.txt"):
        text.write_text(text.read_text() + "two dogs play in the snow\na man rides a bike\n")
    (folder / "2.jpg").write_bytes(b"no photo")
    alone, reranked = measure_rows(plan("bm25", reranker="ce"), make_questions(open_source(folder)))
    assert (alone.documents, alone.report.images) == ("captions", 6)
    for way, ranking in reranked.report.rankings.items():
        assert ranking.queries == alone.report.rankings[way].queries
        for found, before in zip(ranking.found, alone.report.rankings[way].found, strict=True):
            assert sorted(found) == sorted(before)
            places = ["2.jpg" in id for id in found]
            assert places == sorted(places)  # last, as bm25 does not open photos and the reranker does


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Responses of known lengths, and what was asked."""
    asked: list[Any] = []

    def time_stage(index: Any, asking: Any, tokens: Any, ks: Sequence[int]) -> dict[int | None, Response]:
        asked.append((index, asking, tokens))
        first = np.tile([0.1, 0.3, 0], (len(asking.queries), 1))
        return {
            None: Response(first, 1.0),
            **({k: Response(first + [0, 0, k / 10], 2.0) for k in ks} if tokens else {}),
        }

    def time_pairs(tokens: Any, asking: Any, photos: int, scored: int) -> Response:
        asked.append((tokens, asking, photos, scored))
        return Response(np.tile([0, 0, photos / 10], (len(asking.queries), 1)), 3.0, 7)

    monkeypatch.setattr(module, "time_stage", time_stage)
    monkeypatch.setattr(module, "time_pairs", time_pairs)
    return asked


def test_speed_up_is_the_ratio_of_means(models: Path, timed: list[Any]) -> None:
    rows = measure_rows(
        plan("be", reranker="ce", ks=(4, 8), recall=False, response=True, pairs=True, queries=12),
        make_questions(SCENES, pairs=5),
    )
    assert [row.speed_up for row in rows] == pytest.approx([1, 3 / 0.4, 3 / 0.8, 3 / 1.2])
    assert all(row.report is None for row in rows)
    pairs, (index, asking, tokens) = timed
    assert pairs[2:] == (30, 512)
    assert len(pairs[1].queries) == 10
    assert len(asking.queries) == 12
    asked_by = [caption for row in range(0, 30, 6) for caption in SCENES.items[row].captions]
    assert set(asking.queries) <= set(asked_by)
    assert index.model == "be"
    assert tokens.model == "ce"


def test_bytes_of_a_photo(models: Path, timed: list[Any]) -> None:
    alone, reranked = measure_rows(
        plan("be", reranker="ce", ks=(4,), response=True), make_questions(SCENES, pairs=2)
    )
    index = timed[0][0]
    assert alone.photo_bytes == pytest.approx(1e6 * index.megabytes / 30)
    assert reranked.photo_bytes == pytest.approx(alone.photo_bytes + 17 * 16 * 2)  # tokens times width


def test_pools_of_several_sizes(models: Path, timed: list[Any]) -> None:
    rows = measure_rows(
        plan("be", reranker="ce", recall=False, response=True, pairs=True, sizes=(10, 50)),
        make_questions(SCENES),
    )
    assert [(row.model, row.k, row.photos) for row in rows] == [
        ("ce", None, 10),
        ("be", None, 10),
        ("be", 20, 10),
        ("ce", None, 50),
        ("be", None, 50),
        ("be", 20, 50),
    ]
    assert [row.speed_up for row in rows] == pytest.approx([1, 2.5, 1 / 2.4, 1, 12.5, 5 / 2.4])


def test_training_counts_each_run_once(models: Path) -> None:
    sections = {"objective": {"contrastive": 0, "matching": 1, "flops_image": 0, "flops_text": 0}}
    write_run(Path("runs/ce"), {"model": {"kind": "ce"}, **sections}, checkpoint=Path("ce"))
    be = {"contrastive": 0, "triplet": 1, "flops_image": 0, "flops_text": 0}
    write_run(
        Path("runs/be"),
        {"model": {"kind": "be"}, "objective": be, "init": "runs/ce/best"},
        checkpoint=Path("be"),
    )
    for run, rate in (("ce", 32), ("be", 64)):  # photos a second, of batches of 64
        lines = "".join(f'{{"step": {step}, "samples_per_s": {rate}}}\n' for step in (30, 60))
        Path(f"runs/{run}/metrics.jsonl").write_text(lines)
    alone, reranked = measure_rows(plan("runs/be", reranker="runs/ce"), make_questions(SCENES, pairs=2))
    assert alone.training.minutes == reranked.training.minutes == pytest.approx(2 + 1)
    assert alone.training.steps == 120
    plain = alone.to_dict()
    assert (plain["training_minutes"], plain["training_steps"]) == (3, 120)
    [unknown] = measure_rows(plan("words"), make_questions(SCENES, pairs=2))
    assert unknown.training is None


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (lambda: plan("ce"), ModelError, "ce is a ce model, which has no vectors to find photos by"),
        (lambda: plan("words", reranker="be"), ModelError, "be is a first stage and cannot rerank"),
        (lambda: plan("words", reranker="bm25"), ModelError, "bm25 is a first stage and cannot rerank"),
        (lambda: plan("words", reranker="nothing"), ModelError, "no model 'nothing'"),
        (lambda: plan("be", "nothing"), ModelError, "no model 'nothing'"),
        (lambda: plan("bm25", sizes=(50,)), ConfigError, "bm25 has no vectors to fill a pool up with"),
    ],
)
def test_what_cannot_be_measured(
    models: Path, arguments: Callable[[], Plan], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        measure_rows(arguments(), make_questions(SCENES))
