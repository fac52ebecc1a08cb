import os
from pathlib import Path

import pytest

from anserini_bridge import ImpactSearcher, update_index
from tests.cli.conftest import ELSEWHERE, Run, as_json, error


@pytest.fixture
def updated(lexlip: Run, photos: Path) -> Path:
    """An index of six photos, of which some were replaced and one deleted."""
    lexlip("index", "photos")
    index = Path(".lexlip")
    with ImpactSearcher(index) as searcher:
        vectors = searcher.vectors(["1.jpg", "2.jpg"])
    for _ in range(3):
        with update_index(index) as writer:
            writer.upsert(["1.jpg", "2.jpg"], vectors)
    with update_index(index) as writer:
        writer.delete(["3.jpg"])
    return index


def test_the_answers_stay_and_the_index_shrinks(lexlip: Run, updated: Path) -> None:
    names = ["0.jpg", "4.jpg", "5.jpg", "1.jpg", "2.jpg"]  # in their order
    with ImpactSearcher(updated) as searcher:
        vectors = searcher.vectors(names)
        before = searcher.search(vectors, k=6)
        result = lexlip("optimize")
        assert searcher.refresh()
        after = searcher.search(vectors, k=6)
        assert (searcher.vectors(names) != vectors).nnz == 0
    assert after[0] == before[0]
    assert [row.tolist() for row in after[1]] == [row.tolist() for row in before[1]]
    assert result.stdout.startswith("5 photos in .lexlip: ")
    assert len(list(updated.glob("data-*/lucene/*.si"))) == 1


def test_json(lexlip: Run, updated: Path) -> None:
    done = as_json(lexlip, "optimize", "--index", ".lexlip")
    assert list(done) == ["index", "photos", "megabytes_before", "megabytes", "seconds"]
    assert (done["index"], done["photos"]) == (".lexlip", 5)
    assert done["megabytes"] < done["megabytes_before"]


def test_no_index_is_one_sentence(lexlip: Run) -> None:
    result = lexlip("optimize", "--index", "nowhere", code=2)
    assert "there is no index at nowhere" in result.stderr


def test_another_writer_is_one_sentence(lexlip: Run, updated: Path) -> None:
    with update_index(updated):
        result = lexlip("optimize", code=2)
    assert "another process is writing to the index" in result.stderr


@pytest.mark.parametrize("folder", [".", "data-1", "data-1/lucene"])
def test_an_index_that_cannot_be_written_is_found_out_before_the_work(
    folder: str, lexlip: Run, updated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, allowed = (updated.absolute() / folder).resolve(), os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: Path(path).resolve() != closed and allowed(path, mode)
    )
    monkeypatch.setattr("anserini_bridge.ImpactWriter.optimize", lambda writer: pytest.fail("work"))
    result = lexlip("optimize", code=2)
    assert result.stderr == "Error: cannot write the index .lexlip: Permission denied\n"
    if folder == ".":
        says = error(lexlip("index", "--update", code=2))
        assert says == "cannot write the index .lexlip: Permission denied" + ELSEWHERE
