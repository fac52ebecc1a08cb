from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from anserini_bridge import folder_megabytes, read_header
from lexlip.bench.response import TimedIndex
from lexlip.bench.tables.first_stages import Measured, measure_first_stages
from lexlip.bench.tables.settings import TableSettings
from lexlip.bench.tables.timed_index import write_timed_index
from lexlip.data import Scenes, open_source
from lexlip.retrieval.first_stage import FirstStage
from lexlip.search.open_index import open_index
from tests.tiny import tiny_dense, tiny_model

SCENES = Scenes(8, seed=0)
SETTINGS = TableSettings(topks=(4,), workers=0)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stages")
    tiny_model().save(folder / "words")
    tiny_dense().save(folder / "dense")
    return folder


@pytest.fixture(scope="module")
def stages(models: Path) -> dict[str, Measured]:
    names = [str(models / "words"), str(models / "dense"), "bm25"]
    measured = measure_first_stages(names, SCENES, SETTINGS)
    return dict(zip(("words", "dense", "bm25"), measured, strict=True))


@contextmanager
def opened(index: TimedIndex) -> Iterator[FirstStage]:
    with closing(open_index(index.folder, query_topk=index.query_topk)) as stage:
        yield stage


@pytest.mark.parametrize(("name", "kind"), [("words", "impact"), ("dense", "dense"), ("bm25", "bm25")])
def test_an_index_of_each_kind(
    stages: dict[str, Measured], models: Path, tmp_path: Path, name: str, kind: str
) -> None:
    index = write_timed_index(tmp_path / "index", stages[name], SCENES, SETTINGS)
    assert (index.photos, index.query_topk) == (8, None)
    assert index.megabytes == folder_megabytes(tmp_path / "index") > 0
    header = read_header(tmp_path / "index")
    assert (header.kind, header.documents) == (kind, 8)
    assert header.extra["model"] == ("bm25" if name == "bm25" else str(models / name))


@pytest.mark.parametrize("name", ["words", "dense"])
def test_what_is_found_is_what_was_measured(stages: dict[str, Measured], tmp_path: Path, name: str) -> None:
    ranking = stages[name].report.rankings["t2i"]
    index = write_timed_index(tmp_path / "index", stages[name], SCENES, SETTINGS)
    with opened(index) as stage:
        for row in range(0, 40, 7):
            query = stage.encode(SCENES.items[row // 5].captions[row % 5])
            (ids,), _ = stage.search([query], 1)
            assert ids == ranking.found[row][:1]


@pytest.mark.parametrize("name", ["words", "dense"])
def test_synthetic_vectors_fill_up_a_pool(stages: dict[str, Measured], tmp_path: Path, name: str) -> None:
    more, fewer = (
        write_timed_index(tmp_path / str(photos), stages[name], SCENES, SETTINGS, photos)
        for photos in (50, 3)
    )
    assert (more.photos, fewer.photos) == (50, 3)
    assert [read_header(index.folder).documents for index in (more, fewer)] == [50, 3]
    assert fewer.megabytes < more.megabytes


def test_settings_reach_the_index(stages: dict[str, Measured], tmp_path: Path) -> None:
    settings = TableSettings(engine="hnsw", query_topk=3, scheme="paper", workers=0)
    words, dense = (
        write_timed_index(tmp_path / name, stages[name], SCENES, settings) for name in ("words", "dense")
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
