from pathlib import Path
from typing import Any

import pytest

from anserini_bridge.bm25 import Bm25Searcher
from lexlip.data import open_source
from lexlip.data.facts import Facts
from lexlip.indexing.caption_index import remove_old_captions, write_caption_index
from lexlip.indexing.table_writer import TableWriter


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "index" / "data-1"
    made.mkdir(parents=True)
    return made


def written(photos: Path, folder: Path, old: dict[str, Any], **facts: Any) -> dict[str, Any]:
    with TableWriter(folder, folder.parent, open_source(photos)) as table:
        table.add((number, Facts(**facts)) for number in range(6))
    return write_caption_index(folder, folder.parent, {"photos": table.name, "model": "m"}, old)


def found(folder: Path, extra: dict[str, Any], query: str) -> list[str]:
    with Bm25Searcher(
        folder / extra["captions"]["folder"], language=extra["captions"]["language"]
    ) as searcher:
        return searcher.search([query])[0][0]


def test_captions_and_keywords_are_found(photos: Path, folder: Path) -> None:
    (photos / "1.txt").write_text("a whale\n")
    (photos / "2.txt").unlink()
    extra = written(photos, folder, {}, keywords=("sea",), captions=("a lighthouse",))
    assert extra == {
        "photos": "photos-1.sqlite",
        "model": "m",
        "captions": {"folder": "captions-1", "language": "en", "documents": 6},
    }
    assert found(folder, extra, "whales") == ["1.jpg"]
    assert len(found(folder, extra, "lighthouse")) == len(found(folder, extra, "sea")) == 6


def test_without_texts_there_is_none(photos: Path, folder: Path) -> None:
    for text in photos.glob("*.txt"):
        text.unlink()
    assert written(photos, folder, {}) == {"photos": "photos-1.sqlite", "model": "m"}
    assert not list(folder.glob("captions-*"))


def test_it_is_written_anew_only_if_a_text_has_changed(photos: Path, folder: Path) -> None:
    first = written(photos, folder, {})
    assert written(photos, folder, first, width=7)["captions"] == first["captions"]
    (photos / "1.txt").write_text("a whale\n")
    second = written(photos, folder, first)
    assert second["captions"]["folder"] == "captions-2"
    assert (found(folder, first, "whale"), found(folder, second, "whale")) == ([], ["1.jpg"])
    remove_old_captions(folder, keep="captions-2")
    assert [path.name for path in folder.glob("captions-*")] == ["captions-2"]
