from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from lexlip.data import Scenes
from lexlip.bench.tables.first_stages import Settings, measure_first_stages
from lexlip.evaluation.stages import response as module
from lexlip.bench.tables.indexes import write_index
from lexlip.bench.response import Asked, Index, Response, Tokens, _time_pairs, _time_stage
from tests.tiny import TINY, tiny_dense, tiny_model, tiny_stage

SCENES = Scenes(8, seed=0)
QUERIES = [item.captions[0] for item in SCENES.items]
ASKED = Asked(QUERIES, k=3, warm_up=0)


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """What is timed in this process leaves torch one thread."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stages")
    tiny_model().save(folder / "words")
    tiny_dense().save(folder / "dense")
    tiny_stage("ce").save(folder / "ce")
    return folder


def make_index(name: str, folder: Path, settings: Settings | None = None, photos: int | None = None) -> Index:
    settings = settings or Settings(topks=(4,), workers=0)
    folder.mkdir()
    [stage] = measure_first_stages([name], SCENES, settings)
    return write_index(folder, stage, SCENES, settings, photos)


def make_tokens(models: Path, folder: Path) -> Tokens:
    photos = np.random.default_rng(0).normal(size=(5, 17, 16)).astype(np.float16)
    np.save(folder / "tokens.npy", photos)
    assert TINY.text.options["hidden_size"] == 16
    return Tokens(str(models / "ce"), folder / "tokens.npy")


def test_statistics_are_numpy_s() -> None:
    seconds = np.random.default_rng(0).exponential(size=(50, 3))
    plain = Response(seconds, 12.0, scored=7).to_dict()
    total = seconds[:, 0] + seconds[:, 1] + seconds[:, 2]
    assert [plain["encode"], plain["search"], plain["rerank"]] == pytest.approx(seconds.mean(axis=0))
    assert (plain["mean"], plain["min"], plain["max"]) == pytest.approx(
        (total.mean(), min(total), max(total))
    )
    for percent in (50, 95, 99, 99.99):
        assert plain[f"p{percent}"] == pytest.approx(np.percentile(total, percent))
    assert (plain["queries"], plain["peak_mb"], plain["scored"]) == (50, 12.0, 7)


@pytest.mark.parametrize("name", ["words", "dense", "bm25"])
def test_each_kind_is_opened_and_asked(models: Path, tmp_path: Path, name: str) -> None:
    index = make_index(name if name == "bm25" else str(models / name), tmp_path / "index")
    assert (index.kind, index.photos) == (name if name != "bm25" else "captions", 8)
    assert index.megabytes > 0
    responses = _time_stage(index, ASKED, make_tokens(models, tmp_path), [2, 5])
    assert list(responses) == [None, 2, 5]
    for k, timed in responses.items():
        assert timed.seconds.shape == (8, 3)
        assert (timed.seconds[:, :2] > 0).all()
        assert ((timed.seconds[:, 2] > 0) == (k is not None)).all()
        assert timed.peak_mb > 10
        assert timed.scored is None


def test_what_is_found_is_what_was_measured(models: Path, tmp_path: Path) -> None:
    for name in ("words", "dense"):
        settings = Settings(topks=(4,), workers=0)
        [stage] = measure_first_stages([str(models / name)], SCENES, settings)
        (tmp_path / name).mkdir()
        encode, search = module._open(write_index(tmp_path / name, stage, SCENES, settings))
        ranking = stage.report.rankings["t2i"]
        for row in range(0, 40, 7):
            (ids,), _ = search(encode(SCENES.items[row // 5].captions[row % 5]), 1)
            assert ids == ranking.found[row][:1]


def test_synthetic_vectors_fill_up_a_pool(models: Path, tmp_path: Path) -> None:
    for name in ("words", "dense"):
        index = make_index(str(models / name), tmp_path / name, photos=50)
        assert index.photos == 50
        fewer = make_index(str(models / name), tmp_path / f"few-{name}", photos=3)
        assert fewer.photos == 3
        assert fewer.megabytes < index.megabytes


def test_candidates_are_as_many_as_are_reranked(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, reranked = [], []
    plain_open, plain_reranker = module._open, module._open_reranker

    def open_index(index: Index) -> object:
        encode, search = plain_open(index)
        return encode, lambda query, k: (asked.append(k), search(query, k))[1]

    def open_reranker(*arguments: object) -> object:
        rerank = plain_reranker(*arguments)
        return lambda query, ids, scores: (reranked.append(len(ids)), rerank(query, ids, scores))[1]

    monkeypatch.setattr(module, "_open", open_index)
    monkeypatch.setattr(module, "_open_reranker", open_reranker)
    index = make_index(str(models / "dense"), tmp_path / "index")
    _time_stage(index, ASKED, make_tokens(models, tmp_path), [5])
    assert asked == [3] * 9 + [5] * 9  # one of them warms up
    assert reranked == [5] * 9


def test_a_reranker_orders_ids(models: Path, tmp_path: Path) -> None:
    tokens = make_tokens(models, tmp_path)
    rerank = module._open_reranker(tokens, ASKED)
    ids = ["a", "b", "synthetic/7"]
    assert sorted(rerank(QUERIES[0], ids, np.array([3.0, 2, 1]))) == ids


def test_pairs_are_extrapolated_in_proportion(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock:
        """A pair takes a hundredth of a second."""

        now = 0.0

        @classmethod
        def perf_counter(cls) -> float:
            return cls.now

    class Model:
        def score_pairs(self, embedded: object, texts: object, pairs: np.ndarray) -> np.ndarray:
            Clock.now += len(pairs) / 100
            return np.zeros(len(pairs))

    tokens = make_tokens(models, tmp_path)
    monkeypatch.setattr(module, "time", Clock)
    monkeypatch.setattr(module, "_load", lambda tokens: (Model(), np.zeros((5, 17, 16))))
    all_scored = _time_pairs(tokens, ASKED, 30, 30)
    assert all_scored.seconds.sum(axis=1) == pytest.approx([0.3] * 8)
    assert all_scored.scored is None
    some = _time_pairs(tokens, ASKED, 3000, 30)
    assert some.mean == pytest.approx(100 * all_scored.mean)
    assert some.scored == 30
    assert (some.to_dict()["rerank"], some.to_dict()["mean"]) == pytest.approx((30, 30))


def test_in_a_process_of_its_own(models: Path, tmp_path: Path) -> None:
    index = make_index(str(models / "words"), tmp_path / "index")
    responses = module.time_stage(index, ASKED)
    assert list(responses) == [None]
    assert responses[None].seconds.shape == (8, 3)
