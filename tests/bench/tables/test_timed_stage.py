from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from anserini_bridge import folder_megabytes, read_header
from lexlip.bench.response import TimedIndex
from lexlip.bench.tables import timed_stage as module
from lexlip.bench.tables.first_stages import Measured, TableSettings, measure_first_stages
from lexlip.bench.tables.timed_stage import TableReranker, owner_of, write_timed_index
from lexlip.data import Scenes, open_source
from lexlip.errors import ModelError
from lexlip.measure.evaluate import evaluate
from lexlip.measure.pairs import rerank
from lexlip.measure.pool import embed_pool
from lexlip.measure.recalls import Ranking, Report
from lexlip.retrieval.first_stage import FirstStage
from lexlip.search.engines.exact import exact_engine
from lexlip.search.stages.index_model import open_index
from tests.bench.conftest import EIGHT, SETTINGS
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


Stages = dict[str, Measured]


@contextmanager
def opened(index: TimedIndex) -> Iterator[FirstStage]:
    with closing(open_index(index.folder, query_topk=index.query_topk)) as stage:
        yield stage


@pytest.mark.parametrize(("name", "kind"), [("words", "impact"), ("dense", "dense"), ("bm25", "bm25")])
def test_an_index_of_each_kind(first_stages: Stages, tmp_path: Path, name: str, kind: str) -> None:
    index = write_timed_index(tmp_path / "index", first_stages[name], EIGHT, SETTINGS)
    assert (index.photos, index.query_topk) == (8, None)
    assert index.megabytes == folder_megabytes(tmp_path / "index") > 0
    header = read_header(tmp_path / "index")
    assert (header.kind, header.documents) == (kind, 8)
    assert header.extra["model"] == first_stages[name].name


@pytest.mark.parametrize("name", ["words", "dense"])
def test_what_is_found_is_what_was_measured(first_stages: Stages, tmp_path: Path, name: str) -> None:
    ranking = first_stages[name].report.rankings["t2i"]
    index = write_timed_index(tmp_path / "index", first_stages[name], EIGHT, SETTINGS)
    with opened(index) as stage:
        for row in range(0, 40, 7):
            query = stage.encode(EIGHT.items[row // 5].captions[row % 5])
            (ids,), _ = stage.search([query], 1)
            assert ids == ranking.found[row][:1]


@pytest.mark.parametrize("name", ["words", "dense"])
def test_synthetic_vectors_fill_up_a_pool(first_stages: Stages, tmp_path: Path, name: str) -> None:
    more, fewer = (
        write_timed_index(tmp_path / str(photos), first_stages[name], EIGHT, SETTINGS, photos)
        for photos in (50, 3)
    )
    assert (more.photos, fewer.photos) == (50, 3)
    assert [read_header(index.folder).documents for index in (more, fewer)] == [50, 3]
    assert fewer.megabytes < more.megabytes


def test_settings_reach_the_index(first_stages: Stages, tmp_path: Path) -> None:
    settings = TableSettings(engine="hnsw", query_topk=3, scheme="paper", workers=0)
    words, dense = (
        write_timed_index(tmp_path / name, first_stages[name], EIGHT, settings) for name in ("words", "dense")
    )
    assert (words.query_topk, dense.query_topk) == (3, None)
    with opened(words) as stage, opened(dense) as other:
        metadata: Any = stage.metadata
        assert (metadata.quantization["scheme"], metadata.topk) == ("paper", 4)
        metadata = other.metadata
        assert metadata.ann == "hnsw"


def test_captions_of_photos_without_any_are_left_out(photos: Path, tmp_path: Path) -> None:
    for text in photos.glob("*.txt"):
        text.write_text(text.read_text() * 2)
    (photos / "2.txt").unlink()
    source = open_source(photos)
    [stage] = measure_first_stages(["bm25"], source, SETTINGS)
    assert write_timed_index(tmp_path / "index", stage, source, SETTINGS).photos == 5
