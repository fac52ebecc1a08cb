from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anserini_bridge import read_header
from lexlip.bench.response import RerankerTokens, Response, TimedIndex, Timing
from lexlip.bench.tables import stages as module
from lexlip.bench.tables import timed_stage
from lexlip.bench.tables.first_stages import TableSettings
from lexlip.bench.tables.row import Row
from lexlip.bench.tables.stages import (
    Plan,
    QueryPool,
    make_query_pool,
    measure_collections,
    measure_languages,
    measure_stages,
)
from lexlip.data import Scenes, open_source
from lexlip.errors import ConfigError, DataError, ModelError
from lexlip.measure.evaluate import evaluate
from lexlip.measure.pairs import evaluate_pairs, rerank
from lexlip.measure.pool import embed_pool
from lexlip.measure.recalls import Report
from lexlip.models.load import load_model, load_reranker
from lexlip.search.engines.exact import engine_for
from tests.bench.tables.some_table import ALONE, REPORT, RERANKED, some_table
from tests.conftest import write_photos
from tests.reference.ranking import naive_recall
from tests.tiny import tiny_model, tiny_stage
from tests.training.run_folders import write_run

SCENES = Scenes(30, seed=0)
RECALL_ONLY, RESPONSE_ONLY = some_table(), some_table(recall=False, response=True, pairs=True)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models in folders of these names, not to be changed."""
    folder = tmp_path_factory.mktemp("models")
    tiny_model().save(folder / "words")
    for seed, kind in enumerate(("be", "ce", "joint")):
        tiny_stage(kind, seed=seed).save(folder / kind)
    return folder


@pytest.fixture
def models(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the test, from which the models have these names."""
    for model in saved.iterdir():
        (tmp_path / model.name).symlink_to(model)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plan(*models: str, **changes: Any) -> Plan:
    settings = TableSettings(topks=(8,), workers=0)
    return Plan(**{"table": RECALL_ONLY, "models": models, "settings": settings, **changes})


def kinds(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    return [(row.model, row.reranker, row.k, row.fusion) for row in rows]


def report_of(row: Row) -> Report:
    assert row.report is not None
    return row.report


def test_recalls_are_those_of_evaluate_and_rerank(models: Path) -> None:
    rows = measure_stages(plan("words", "be", reranker="ce", ks=(3, 5)), make_query_pool(SCENES))
    assert kinds(rows) == [
        (model, *how)
        for model in ("words", "be")
        for how in ((None, None, None), ("ce", 3, "none"), ("ce", 5, "none"))
    ]
    ce = load_reranker("ce")
    tokens = embed_pool(ce, SCENES, workers=0)
    for name, topk, (alone, three, five) in (("words", 8, rows[:3]), ("be", None, rows[3:])):
        model = load_model(name)
        report = evaluate(model, SCENES, engine_for(model)[1], topk, workers=0)
        assert (alone.t2i, alone.i2t) == (report.t2i, report.i2t)
        for k, row in ((3, three), (5, five)):
            again = rerank(ce, tokens, report, k)
            assert (row.t2i, row.i2t) == (again.t2i, again.i2t)
        for way in ("t2i", "i2t"):
            ranking = report_of(five).rankings[way]
            for n in (1, 5, 10):
                assert getattr(five, way)[f"R@{n}"] == naive_recall(ranking.found, ranking.relevant, n)


def test_a_joint_model_reranks_itself_and_fusions_have_rows(models: Path) -> None:
    chosen = plan("joint", "be", reranker="ce", fusions=("none", "add"), ks=(4,))
    rows = measure_stages(chosen, make_query_pool(SCENES, queries=5))
    assert kinds(rows) == [
        (model, *how)
        for model, reranker in (("joint", "joint"), ("be", "ce"))
        for how in ((None, None, None), (reranker, 4, "none"), (reranker, 4, "add"))
    ]


def test_nothing_is_reranked_where_a_table_is_not_about_it(models: Path) -> None:
    chosen = plan("joint", "be", table=some_table(reranks="never"))
    rows = measure_stages(chosen, make_query_pool(SCENES, queries=5))
    assert kinds(rows) == [("joint", None, None, None), ("be", None, None, None)]


def test_some_photos_are_queries_among_all(models: Path) -> None:
    alone, reranked = measure_stages(plan("be", reranker="ce", ks=(4,)), make_query_pool(SCENES, queries=6))
    everything = evaluate(load_model("be"), SCENES, engine_for(load_model("be"))[1], workers=0)
    queries = {SCENES.items[row].id for row in range(0, 30, 5)}
    for way in ("t2i", "i2t"):
        of_all, some = everything.rankings[way], report_of(alone).rankings[way]
        owner = (lambda id: id.rpartition("#")[0]) if way == "t2i" else (lambda id: id)
        rows = [row for row, query in enumerate(of_all.queries) if owner(query) in queries]
        assert some.queries == [of_all.queries[row] for row in rows]
        assert some.found == [of_all.found[row] for row in rows]
        assert some.relevant == [of_all.relevant[row] for row in rows]
        again = report_of(reranked).rankings[way].found
        assert [set(row) for row in again] == [set(row) for row in some.found]
    assert (alone.photos, report_of(alone).images, report_of(alone).captions) == (30, 30, 150)


def test_only_what_is_needed_is_embedded_and_once(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    plain = timed_stage.embed_pool

    def count(model: Any, source: Any, workers: int, progress: bool, indices: list[int]) -> Any:
        seen.append(indices)
        return plain(model, source, workers, progress, indices)

    monkeypatch.setattr(timed_stage, "embed_pool", count)
    measure_stages(plan("words", "be", reranker="ce", ks=(2,)), make_query_pool(SCENES, queries=1))
    [indices] = seen
    assert len(indices) < 30
    assert len(indices) == len(set(indices))


def test_the_cross_encoder_alone(models: Path) -> None:
    rows = measure_stages(
        plan("be", reranker="ce", table=some_table(pairs=True)),
        make_query_pool(SCENES, queries=5, captions=2, queries_only=True),
    )
    assert kinds(rows) == [("ce", None, None, None), ("be", None, None, None), ("be", "ce", 20, "none")]
    ce = load_reranker("ce")
    report = evaluate_pairs(ce, embed_pool(ce, SCENES, 0, indices=range(0, 30, 6), captions=2))
    assert (rows[0].t2i, rows[0].i2t) == (report.t2i, report.i2t)
    assert (rows[0].documents, rows[0].photos) == ("pairs", 5)
    assert rows[2].t2i == report.t2i  # all five photos are candidates


def test_photos_that_cannot_be_read_stay_behind_what_is_reranked(models: Path) -> None:
    folder = write_photos(models / "photos", 6)
    for text in folder.glob("*.txt"):
        text.write_text(text.read_text() + "two dogs play in the snow\na man rides a bike\n")
    (folder / "2.jpg").write_bytes(b"no photo")
    alone, reranked = measure_stages(plan("bm25", reranker="ce"), make_query_pool(open_source(folder)))
    assert (alone.documents, report_of(alone).images) == ("captions", 6)
    for way, ranking in report_of(reranked).rankings.items():
        assert ranking.queries == report_of(alone).rankings[way].queries
        for found, before in zip(ranking.found, report_of(alone).rankings[way].found, strict=True):
            assert sorted(found) == sorted(before)
            places = ["2.jpg" in id for id in found]
            assert places == sorted(places)  # last, as bm25 does not open photos and the reranker does


class Timed:
    """Responses of known lengths; remembers what was to be timed, and the models of the indexes."""

    def __init__(self) -> None:
        self.stages: list[tuple[TimedIndex, Timing, RerankerTokens | None]] = []
        self.pairs: list[tuple[RerankerTokens, Timing, int, int]] = []
        self.models: list[str] = []

    def stage(
        self, index: TimedIndex, timing: Timing, tokens: RerankerTokens | None, ks: Sequence[int]
    ) -> dict[int | None, Response]:
        self.stages.append((index, timing, tokens))
        self.models.append(read_header(index.folder).extra["model"])
        first = np.tile([0.1, 0.3, 0], (len(timing.queries), 1))
        reranked: dict[int | None, Response] = (
            {k: Response(first + [0, 0, k / 10], 2.0) for k in ks} if tokens else {}
        )
        return {None: Response(first, 1.0), **reranked}

    def all_pairs(self, tokens: RerankerTokens, timing: Timing, photos: int, scored: int) -> Response:
        self.pairs.append((tokens, timing, photos, scored))
        return Response(np.tile([0, 0, photos / 10], (len(timing.queries), 1)), 3.0, 7)


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Timed:
    timed = Timed()
    monkeypatch.setattr(module, "time_stage", timed.stage)
    monkeypatch.setattr(module, "time_pairs", timed.all_pairs)
    return timed


def test_speed_up_is_the_ratio_of_means(models: Path, timed: Timed) -> None:
    rows = measure_stages(
        plan("be", reranker="ce", ks=(4, 8), table=RESPONSE_ONLY, timed=12),
        make_query_pool(SCENES, queries=5),
    )
    assert [row.speed_up for row in rows] == pytest.approx([1, 3 / 0.4, 3 / 0.8, 3 / 1.2])
    assert all(row.report is None and row.t2i is None for row in rows)
    [(_, pairs_timing, photos, scored)], [(_, timing, tokens)] = timed.pairs, timed.stages
    assert (photos, scored) == (30, 512)
    assert len(pairs_timing.queries) == 10
    assert len(timing.queries) == 12
    captions = [caption for row in range(0, 30, 6) for caption in SCENES.items[row].captions]
    assert set(timing.queries) <= set(captions)
    assert timed.models == ["be"]
    assert tokens is not None
    assert tokens.model == "ce"


def test_bytes_of_a_photo(models: Path, timed: Timed) -> None:
    alone, reranked = measure_stages(
        plan("be", reranker="ce", ks=(4,), table=some_table(response=True)),
        make_query_pool(SCENES, queries=2),
    )
    index = timed.stages[0][0]
    assert alone.photo_bytes == pytest.approx(1e6 * index.megabytes / 30)
    assert reranked.photo_bytes is not None
    tokens = 17 * 16 * 2  # of 16 numbers, of two bytes each
    assert reranked.photo_bytes - tokens == pytest.approx(alone.photo_bytes)


def test_pools_of_several_sizes(models: Path, timed: Timed) -> None:
    rows = measure_stages(
        plan("be", reranker="ce", table=RESPONSE_ONLY, sizes=(10, 50)), make_query_pool(SCENES)
    )
    assert [(row.model, row.k, row.photos) for row in rows] == [
        (model, k, photos) for photos in (10, 50) for model, k in (("ce", None), ("be", None), ("be", 20))
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
    pool = make_query_pool(SCENES, queries=2)
    for row in measure_stages(plan("runs/be", reranker="runs/ce"), pool):
        assert row.training is not None
        assert row.training.minutes == pytest.approx(2 + 1)
        assert row.training.steps == 120
    [unknown] = measure_stages(plan("words"), pool)
    assert unknown.training is None


def test_what_a_run_leaves_out_is_named(models: Path) -> None:
    objective = {"contrastive": 0, "triplet": 1, "flops_image": 0, "flops_text": 0}
    write_run(Path("runs/be"), {"model": {"kind": "be"}, "objective": objective}, checkpoint=Path("be"))
    table, pool = some_table(ablations="vldeformer"), make_query_pool(SCENES, queries=2)
    [row] = measure_stages(plan("runs/be", table=table), pool)
    assert str(row.method).startswith("without contrastive loss, composed negatives, ")
    with pytest.raises(DataError, match="be is neither a training run nor one of its checkpoints"):
        measure_stages(plan("be", table=table), pool)


MUST_RERANK = some_table(reranks="must")


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (lambda: plan("ce"), ModelError, "ce is a ce model, which has no vectors to find photos by"),
        (lambda: plan("words", reranker="be"), ModelError, "be is a first stage and cannot rerank"),
        (lambda: plan("words", reranker="bm25"), ModelError, "bm25 is a first stage and cannot rerank"),
        (lambda: plan("words", reranker="nothing"), ModelError, "no model 'nothing'"),
        (lambda: plan("be", "nothing"), ModelError, "no model 'nothing'"),
        (lambda: plan("bm25", sizes=(50,)), ConfigError, "bm25 has no vectors to enlarge a pool with"),
        (lambda: plan("be", table=MUST_RERANK), ConfigError, "name a ce or a joint model with --rerank"),
    ],
)
def test_what_cannot_be_measured(
    models: Path, arguments: Callable[[], Plan], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        measure_stages(arguments(), make_query_pool(SCENES))


TEN = Scenes(10, seed=0)


@pytest.mark.parametrize("others", [0, 4])
@pytest.mark.parametrize("captions", [None, 2])
@pytest.mark.parametrize("queries_only", [False, True])
@pytest.mark.parametrize("queries", [None, 3])
def test_queries_come_first_in_a_pool(
    queries: int | None, queries_only: bool, captions: int | None, others: int
) -> None:
    further = [Scenes(others, seed=1)] if others else []
    pool = make_query_pool(TEN, further, queries, captions, queries_only)
    first = list(range(10)) if queries is None else [0, 3, 6]  # evenly spread
    rest = [] if queries_only else [row for row in range(10) if row not in first]
    items = [*(TEN.items[row] for row in [*first, *rest]), *(item for one in further for item in one.items)]
    assert [item.captions for item in pool.source.items] == [item.captions[:captions] for item in items]
    assert (pool.queries, pool.captions_per_photo) == (len(first), captions or 5)


def test_only_photos_with_captions_are_queries(photos: Path) -> None:
    (photos / "0.txt").unlink()
    pool = make_query_pool(open_source(photos), queries=1)
    assert pool.source.items[0].captions
    for text in photos.glob("*.txt"):
        text.unlink()
    with pytest.raises(DataError, match="has a caption: give photos with captions"):
        make_query_pool(open_source(photos))


PLAN = Plan(table=some_table(), models=["be"])
POOLS = {name: make_query_pool(Scenes(4, seed=seed)) for seed, name in enumerate(("one", "two"))}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, QueryPool]]:
    """The languages and pools that were measured; each finds more than the one before."""
    seen: list[tuple[str, QueryPool]] = []

    def measure(plan: Any, pool: QueryPool) -> list[Row]:
        seen.append((plan.settings.language, pool))
        report = replace(REPORT, t2i={**REPORT.t2i, "R@1": float(len(seen))})
        return [replace(ALONE, report=report), replace(RERANKED, report=report)]

    monkeypatch.setattr(module, "measure_stages", measure)
    return seen


def test_collections_one_after_another(measured: list[tuple[str, QueryPool]]) -> None:
    rows = measure_collections(PLAN, POOLS)
    assert [(row.collection, row.k, row.t2i and row.t2i["R@1"]) for row in rows] == [
        *(("one", None, 1), ("one", 20, 1), ("two", None, 2), ("two", 20, 2)),
    ]
    assert [pool for _, pool in measured] == list(POOLS.values())
    assert {row.trained_on for row in rows} == {None}


def test_a_row_has_all_languages(measured: list[tuple[str, QueryPool]]) -> None:
    alone, reranked = measure_languages(PLAN, {"en": POOLS["one"], "de": POOLS["two"]})
    assert (alone.k, reranked.k) == (None, 20)
    for row in (alone, reranked):
        assert row.languages is not None
        assert {name: report.t2i["R@1"] for name, report in row.languages.items()} == {"en": 1, "de": 2}
        assert (row.report, row.t2i, row.i2t) == (None, None, None)
    assert measured == [("en", POOLS["one"]), ("de", POOLS["two"])]  # bm25 stems words of a language
