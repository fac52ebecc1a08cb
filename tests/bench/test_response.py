from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from anserini_bridge import ImpactSearcher, read_metadata
from lexlip.bench import clocks
from lexlip.bench import response as module
from lexlip.bench.response import (
    STAGES,
    RerankerTokens,
    Response,
    TimedIndex,
    Timing,
    grow,
    measure_latency,
    time_pairs,
    time_stage,
)
from lexlip.bench.tables.first_stages import Measured
from lexlip.bench.tables.timed_stage import write_timed_index
from lexlip.data import open_source
from lexlip.errors import DataError
from lexlip.indexing.impact import index_photos
from lexlip.search.stages.index_model import open_index
from lexlip.sparse.quantize import Scheme
from tests.bench.conftest import EIGHT, SETTINGS
from tests.conftest import Clock, write_photos
from tests.search.indexes import index_words
from tests.tiny import CAPTIONS, TINY, tiny_balanced, tiny_stage

QUERIES = [item.captions[0] for item in EIGHT.items]
TIMING = Timing(QUERIES, k=3, warm_up=0)


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """What is timed in this process leaves torch one thread."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def indexes(
    first_stages: dict[str, Measured], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, TimedIndex]:
    """An index of each kind."""
    folder = tmp_path_factory.mktemp("indexes")
    return {
        name: write_timed_index(folder / name, stage, EIGHT, SETTINGS) for name, stage in first_stages.items()
    }


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> RerankerTokens:
    folder = tmp_path_factory.mktemp("reranker")
    tiny_stage("ce").save(folder / "ce")
    np.save(folder / "tokens.npy", np.random.default_rng(0).normal(size=(5, 17, 16)).astype(np.float16))
    assert TINY.text.options["hidden_size"] == 16
    return RerankerTokens(str(folder / "ce"), folder / "tokens.npy")


def test_statistics_are_numpy_s() -> None:
    seconds = np.random.default_rng(0).exponential(size=(50, 3))
    response = Response(seconds, 12.0, scored=7)
    plain = response.to_dict()
    total = seconds[:, 0] + seconds[:, 1] + seconds[:, 2]
    assert [plain["encode"], plain["search"], plain["rerank"]] == pytest.approx(seconds.mean(axis=0))
    assert (plain["mean"], plain["min"], plain["max"]) == pytest.approx(
        (total.mean(), min(total), max(total))
    )
    assert response.mean == plain["mean"]
    for percent in (50, 95, 99, 99.99):
        assert plain[f"p{percent}"] == pytest.approx(np.percentile(total, percent))
    assert (plain["queries"], plain["peak_mb"], plain["scored"]) == (50, 12.0, 7)


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("name", ["words", "dense", "bm25"])
def test_each_kind_is_opened_and_searched(
    indexes: dict[str, TimedIndex], tokens: RerankerTokens, name: str
) -> None:
    responses = time_stage(indexes[name], TIMING, tokens, [2, 5])
    assert list(responses) == [None, 2, 5]
    for k, timed in responses.items():
        assert timed.seconds.shape == (8, 3)
        assert (timed.seconds[:, :2] > 0).all()
        assert ((timed.seconds[:, 2] > 0) == (k is not None)).all()
        assert timed.peak_mb > 10
        assert timed.scored is None


@pytest.mark.usefixtures("in_this_process")
def test_candidates_are_as_many_as_are_reranked(
    indexes: dict[str, TimedIndex], tokens: RerankerTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched, reranked = [], []
    plain_reranker = module._open_reranker

    def open_and_count(*arguments: Any, **options: Any) -> Any:
        stage = open_index(*arguments, **options)
        search = stage.search

        def search_and_count(queries: Sequence[Any], k: int) -> Any:
            searched.append(k)
            return search(queries, k)

        monkeypatch.setattr(stage, "search", search_and_count)
        return stage

    def open_reranker(*arguments: Any) -> Callable[..., list[str]]:
        rerank = plain_reranker(*arguments)
        return lambda query, ids, scores: (reranked.append(len(ids)), rerank(query, ids, scores))[1]

    monkeypatch.setattr(module, "open_index", open_and_count)
    monkeypatch.setattr(module, "_open_reranker", open_reranker)
    time_stage(indexes["dense"], TIMING, tokens, [5])
    assert searched == [3] * 9 + [5] * 9  # one of them warms up
    assert reranked == [5] * 9


@pytest.mark.usefixtures("in_this_process")
def test_a_query_keeps_as_many_words_as_the_index_is_timed_with(
    indexes: dict[str, TimedIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = []

    def open_and_tell(folder: Path, query_topk: int | None) -> Any:
        kept.append(query_topk)
        return open_index(folder, query_topk=query_topk)

    monkeypatch.setattr(module, "open_index", open_and_tell)
    for query_topk in (None, 2):
        time_stage(replace(indexes["words"], query_topk=query_topk), TIMING)
    assert kept == [None, 2]


@pytest.mark.usefixtures("in_this_process")
def test_all_queries_are_warmed_up_for_so_long_as_is_said(
    indexes: dict[str, TimedIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def time_queries(answer: Any, queries: Sequence[str], warm_up: float | None) -> Any:
        seen.append((list(queries), warm_up))
        return clocks.time_queries(answer, queries, warm_up=0)

    monkeypatch.setattr(module, "time_queries", time_queries)
    time_stage(indexes["bm25"], Timing(QUERIES[:2]))
    time_stage(indexes["bm25"], Timing(QUERIES[:2], warm_up=7.0))
    assert seen == [(QUERIES[:2], None), (QUERIES[:2], 7.0)]  # None: what `bench latency` takes


def test_a_reranker_orders_ids_by_its_scores(tokens: RerankerTokens) -> None:
    """Tokens of another photo stand for those of a photo; its id decides which."""
    rerank = module._open_reranker(tokens, TIMING)
    ids = ["a", "b", "synthetic/7"]
    found = rerank(QUERIES[0], ids, np.array([3.0, 2, 1]))
    assert sorted(found) == ids
    assert rerank(QUERIES[0], ids[::-1], np.array([1.0, 2, 3])) == found
    first = module._open_reranker(tokens, replace(TIMING, fusion="norm_add", weight=1.0))
    assert first(QUERIES[0], ids, np.array([1.0, 3, 2])) == ["b", "synthetic/7", "a"]


@pytest.mark.usefixtures("in_this_process")
def test_pairs_are_extrapolated_in_proportion(
    tokens: RerankerTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pair takes a hundredth of a second."""
    clock = Clock()

    class Model:
        def score_pairs(self, photos: object, texts: object, pairs: np.ndarray) -> np.ndarray:
            clock.now += len(pairs) / 100
            return np.zeros(len(pairs))

    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "_load", lambda tokens: (Model(), np.zeros((5, 17, 16))))
    all_scored = time_pairs(tokens, TIMING, 30, 512)
    assert all_scored.seconds.sum(axis=1) == pytest.approx([0.3] * 8)
    assert all_scored.scored is None
    some = time_pairs(tokens, TIMING, 3000, 30)
    assert some.mean == pytest.approx(100 * all_scored.mean)
    assert some.scored == 30
    assert (some.to_dict()["rerank"], some.to_dict()["mean"]) == pytest.approx((30, 30))


@pytest.mark.usefixtures("forked")
@pytest.mark.slow
def test_in_a_process_of_its_own(indexes: dict[str, TimedIndex]) -> None:
    responses = time_stage(indexes["words"], TIMING)
    assert list(responses) == [None]
    assert responses[None].seconds.shape == (8, 3)


def test_a_process_that_the_system_killed(
    indexes: dict[str, TimedIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_: object, killed: Exception) -> None:
        raise killed

    monkeypatch.setattr("lexlip.machine.resources.in_own_process", end)
    with pytest.raises(DataError, match="the system killed the process that was timed"):
        time_stage(indexes["words"], TIMING)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, model_folder: Path) -> Path:
    """Six photos, of four words each."""
    folder = tmp_path_factory.mktemp("indexed")
    return index_words(model_folder, write_photos(folder / "photos"), folder / "index", topk_words=4)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lexlip.bench.clocks.WARM_UP", 0.01)


def test_a_grown_index_has_its_own_documents_and_mixtures_of_two(index: Path, tmp_path: Path) -> None:
    grow(index, tmp_path / "grown", 5000)
    with ImpactSearcher(index) as small, ImpactSearcher(tmp_path / "grown") as large:
        assert len(large) == 5000
        assert (large.vectors(small.ids()) != small.vectors(small.ids())).nnz == 0
        mixed = large.vectors([f"synthetic/{number}" for number in range(100)])
        known = small.vectors(small.ids())
    assert mixed.nnz / 100 <= 4
    lengths = np.sqrt(mixed.multiply(mixed).sum(axis=1)).A1
    np.testing.assert_allclose(lengths[lengths > 0], 1000, atol=2)
    words = [set(row.indices) for row in known]
    for row in mixed:
        assert any(set(row.indices) <= one | other for one in words for other in words)


def test_a_grown_index_is_of_the_same_model_and_settings(index: Path, tmp_path: Path) -> None:
    grow(index, tmp_path / "grown", 3)  # fewer than there are
    one, other = read_metadata(index), read_metadata(tmp_path / "grown")
    assert (other.encoder, other.topk, other.quantization, other.extra) == (
        *(one.encoder, one.topk, one.quantization, one.extra),
    )
    assert other.documents == one.documents == 6


@pytest.mark.parametrize("scheme", ["balanced", "paper"])
def test_a_grown_index_keeps_its_quantization(scheme: Scheme, tmp_path: Path) -> None:
    """A mixture has the mean of two weights, or one of them, as whole numbers, whatever its length is."""
    model, photos = tiny_balanced(), open_source(write_photos(tmp_path / "photos"))
    index_photos(model, "tiny", photos, 0.0, tmp_path / "index", scheme=scheme, workers=0)
    grow(tmp_path / "index", tmp_path / "grown", 50)
    assert read_metadata(tmp_path / "grown").quantization["scheme"] == scheme
    with ImpactSearcher(tmp_path / "index") as small, ImpactSearcher(tmp_path / "grown") as large:
        real = small.vectors(small.ids()).toarray()
        mixed = large.vectors([f"synthetic/{number}" for number in range(44)]).toarray()
    assert 0 < mixed.max() <= real.max()


def test_milliseconds_of_each_stage(index: Path) -> None:
    report = measure_latency(index, CAPTIONS, ["network", "words"], query_topk=2, k=3)
    conditions = report["conditions"]
    assert {key: conditions[key] for key in ("documents", "queries", "k", "query_topk")} == {
        **{"documents": 6, "queries": 6, "k": 3, "query_topk": 2},
    }
    assert {"cpu", "cores"} < conditions.keys()
    for stages in report["encoders"].values():
        assert 0 < stages.pop("terms") <= 2
        assert tuple(stages) == STAGES
        for values in stages.values():
            assert 0 < values["p50"] <= values["p95"] <= values["p99"] <= values["max"]
        assert stages["total"]["max"] <= sum(stages[stage]["max"] for stage in STAGES[:-1]) + 1e-6


def test_one_encoder_and_all_words_of_a_query(index: Path) -> None:
    report = measure_latency(index, CAPTIONS, ["words"])
    assert list(report["encoders"]) == ["words"]
    assert report["conditions"]["query_topk"] is None
