"""An index that an older version made, with the oldest Lucene that is read, is searched and changed."""

import shutil
from pathlib import Path

import pytest
from bridge_corpus import ROOT
from scipy.sparse import csr_matrix
from skips import needs_anserini

from anserini_bridge import ImpactSearcher, update_index
from anserini_bridge.bm25 import Bm25Searcher

PHOTOS = ROOT / "tests" / "net" / "fixtures" / "photos"


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return shutil.copytree(PHOTOS / ".impact", tmp_path / "index")


def everything(index: Path) -> dict[str, dict[int, int]]:
    """The words of each document, by id."""
    with ImpactSearcher(index) as searcher:
        ids = searcher.ids()
        rows = searcher.vectors(ids)
    return {id: dict(zip(row.indices, row.data, strict=True)) for id, row in zip(ids, rows, strict=True)}


def test_it_is_searched(index: Path) -> None:
    held = everything(index)
    with ImpactSearcher(index) as searcher:
        assert searcher.metadata.lucene_version == "9.9.1"
        query = csr_matrix([[1] * len(searcher.vocabulary)])
        (ids,), (scores,) = searcher.search(query, k=20)
    assert dict(zip(ids, scores, strict=True)) == {id: sum(words.values()) for id, words in held.items()}


def test_it_is_updated_and_optimized(index: Path) -> None:
    held = everything(index)
    with ImpactSearcher(index) as searcher:
        vectors = searcher.vectors(["1.png", "2.png"])
    with update_index(index) as writer:
        writer.upsert(["0.png", "new.png"], vectors)
        writer.delete(["9.png"])
    after = {**held, "0.png": held["1.png"], "new.png": held["2.png"]}
    del after["9.png"]
    assert everything(index) == after
    with update_index(index) as writer:
        writer.optimize()
    assert everything(index) == after


@needs_anserini
def test_one_of_captions_is_searched() -> None:
    with Bm25Searcher(PHOTOS / ".bm25" / "data-1" / "lucene") as searcher:
        assert len(searcher) == 10
        (ids,), _ = searcher.search(["blue"])
    captions = {photo.stem: photo.read_text() for photo in PHOTOS.glob("*.txt")}
    assert sorted(ids) == sorted(f"{name}.png" for name, text in captions.items() if "blue" in text)
