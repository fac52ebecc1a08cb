"""Optimised shards answer as before and as brute force does; an attempt that fails changes nothing."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from anserini_bridge import ImpactWriter
from anserini_bridge.storage import WriterLock
from lexlip.cluster.shard_updating import segments, update
from lexlip.models.model_folder import read_words
from lexlip.search.engines.lucene import impact_writer
from lexlip.search.engines.shard import read_sharded
from lexlip.search.engines.shards import LocalShards, ShardedSearcher
from lexlip.search.photo_search import PhotoSearch
from tests.cluster.conftest import sharded_index, write_tars
from tests.cluster.test_shard_indexing import answers, answers_of

Run = Callable[..., Result]


@pytest.fixture
def many(tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two shards with a segment for each photo, as if there were no more memory; and one of one segment."""
    with monkeypatch.context() as patch:
        patch.setattr("lexlip.indexing.impact.impact_writer", partial(impact_writer, memory_mb=1e-6))
        index = sharded_index(tmp_path, model_folder, tars=2)
    write_tars(tmp_path / "tars", 1, first=2)
    update(index)
    assert segments_of(index) == [7, 7, 1]
    return index


def segments_of(index: Path) -> list[int]:
    return [segments(folder) for folder in shards(index)]


def shards(index: Path) -> list[Path]:
    metadata = read_sharded(index)
    return [index / metadata.directory / shard["folder"] for shard in metadata.shards]


def ranked(scores: np.ndarray, ids: list[str]) -> list[tuple[list[str], list[int]]]:
    """The ids of each row of scores and their scores, best first; equal ones in their order."""
    order = [[n for n in np.argsort(-row, kind="stable") if row[n] > 0] for row in scores]
    return [([ids[n] for n in best], row[best].tolist()) for best, row in zip(order, scores, strict=True)]


def test_answers_stay_those_of_brute_force(
    lexlip: Run, tmp_path: Path, many: Path, model_folder: Path
) -> None:
    words = read_words(model_folder / "vocabulary.txt")
    metadata = read_sharded(many)
    searcher = ShardedSearcher(many, metadata, words, LocalShards(many, metadata))
    ids = [f"{tar:02d}.tar/{photo}.jpg" for tar in range(3) for photo in range(7)]
    vectors = searcher.vectors(ids)
    right = ranked((vectors @ vectors.T).toarray(), ids)
    with PhotoSearch(many, keep_states=1) as search:
        was, last = answers_of(search), shards(many)[2]
        for _ in range(2):  # before, and after
            found, scores = searcher.search(vectors, k=21)
            assert list(zip(found, map(np.ndarray.tolist, scores), strict=True)) == right
            done = json.loads(lexlip("optimize", "--index", "many", "--json").stdout)
            searcher.refresh()
        assert search.refresh()
        assert answers_of(search) == was
    searcher.close()
    assert answers(many) == was
    assert segments_of(many) == [1, 1, 1]
    assert list(done) == ["index", "photos", "megabytes_before", "megabytes", "seconds"]
    assert (done["index"], done["photos"]) == ("many", 21)
    table = next(shards(many)[2].glob("data-*/photos-1.sqlite"))
    assert table.samefile(next(last.glob("data-*/photos-1.sqlite")))  # it was not written again


def test_a_shard_of_one_segment_stays_and_updates_take_over_what_was_optimised(
    lexlip: Run, tmp_path: Path, many: Path
) -> None:
    lexlip("optimize", "--index", "many")
    written = (many / "index.json").read_bytes()
    lexlip("optimize", "--index", "many")
    lexlip("index", "--update", "--index", "many")
    assert (many / "index.json").read_bytes() == written
    write_tars(tmp_path / "tars", 1, first=3)
    assert update(many).added == 7
    assert segments_of(many) == [1, 1, 1, 1]
    assert update(many, repair=True).damaged_files == 0


def test_an_attempt_that_fails_changes_nothing_and_the_next_goes_on(
    lexlip: Run, many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, was = (many / "index.json").read_bytes(), answers(many)
    optimize, done = ImpactWriter.optimize, list[Path]()

    def once(writer: ImpactWriter) -> None:
        if done:
            raise KeyboardInterrupt
        optimize(writer)
        done.append(writer.path)

    with monkeypatch.context() as patch:
        patch.setattr(ImpactWriter, "optimize", once)
        assert "nothing was changed" in lexlip("optimize", "--index", "many", code=130).output
    assert (many / "index.json").read_bytes() == written
    assert segments_of(many) == [7, 7, 1]
    assert answers(many) == was
    monkeypatch.setattr(ImpactWriter, "optimize", lambda writer: done.append(writer.path) or optimize(writer))
    assert lexlip("optimize", "--index", "many").stdout.startswith("21 photos in many: ")
    assert len({path.name for path in done}) == len(done) == 2
    assert answers(many) == was
    assert not (many / "unfinished").exists()


def test_what_it_refuses_is_one_sentence(lexlip: Run, many: Path) -> None:
    written = (many / "index.json").read_bytes()
    with WriterLock(many):
        said = lexlip("optimize", "--index", "many", code=2).stderr
    assert "another process is writing to the index at" in said
    table = next(shards(many)[0].glob("data-*/photos-1.sqlite"))
    data = table.read_bytes()
    table.write_bytes(data[:5000] + bytes([data[5000] ^ 1]) + data[5001:])
    said = lexlip("optimize", "--index", "many", code=2).stderr
    assert f"the index at {many} is damaged, and nothing was changed ({table} is damaged" in said
    assert (many / "index.json").read_bytes() == written
    lexlip("index", "--update", "--index", "many", "--repair")
    lexlip("optimize", "--index", "many")
    assert segments_of(many) == [1, 1, 1]
