from pathlib import Path
from typing import Any

import pytest

from anserini_bridge import folder_megabytes, read_metadata_as
from anserini_bridge.bm25 import Bm25Searcher
from lexlip.data import Skipped, open_source
from lexlip.data.facts import Facts
from lexlip.errors import DataError
from lexlip.indexing.bm25 import (
    NO_CAPTION,
    index_captions,
    remove_old_captions,
    write_caption_index,
    write_captions,
)
from lexlip.indexing.table_writer import TableWriter
from lexlip.search.stages.bm25 import BM25Metadata


def found(folder: Path, query: str) -> list[str]:
    metadata = read_metadata_as(BM25Metadata, folder)
    lucene = folder / metadata.directory / "lucene"
    with Bm25Searcher(lucene, language=metadata.language) as searcher:
        return searcher.search([query])[0][0]


def test_what_is_stored_and_reported(photos: Path, tmp_path: Path) -> None:
    (photos / "0.txt").unlink()
    (photos / "1.jpg").write_text("no photo")  # of which nothing is known
    folder = tmp_path / "index"
    done = index_captions(open_source(photos), 12.5, folder)
    metadata = read_metadata_as(BM25Metadata, folder)
    assert (metadata.kind, metadata.encoder, metadata.language) == ("bm25", "bm25", "en")
    assert metadata.extra == {
        "model": "bm25",
        "listed": 12.5,
        "source": str(photos),
        "root": f"{photos}/",
        "relative": False,
        "photos": "photos-1.sqlite",
        "seal": metadata.extra["seal"],
    }
    assert (done.photos, done.postings) == (metadata.documents, metadata.postings)
    assert done.photos == 5
    assert done.megabytes == folder_megabytes(folder)
    assert done.skipped == [Skipped("0.jpg", NO_CAPTION)]


def test_all_captions_of_a_photo_are_its_document(photos: Path, tmp_path: Path) -> None:
    (photos / "5.txt").write_text("a boat\nwaves and gulls\n")
    index_captions(open_source(photos), 0.0, tmp_path / "index")
    assert found(tmp_path / "index", "boats") == found(tmp_path / "index", "gull") == ["5.jpg"]


def test_the_language_decides_about_stems(photos: Path, tmp_path: Path) -> None:
    (photos / "4.txt").write_text("die Häuser auf dem Bild\n")
    index_captions(open_source(photos), 0.0, tmp_path / "index", "de")
    assert read_metadata_as(BM25Metadata, tmp_path / "index").language == "de"
    assert found(tmp_path / "index", "ein Haus") == ["4.jpg"]


def test_postings_are_pairs_of_a_text_and_a_word(tmp_path: Path) -> None:
    assert write_captions(tmp_path / "index", ["a", "b"], ["red dog dog", "red"], {"made": "here"}) == 3
    metadata = read_metadata_as(BM25Metadata, tmp_path / "index")
    assert (metadata.documents, metadata.postings, metadata.extra) == (2, 3, {"made": "here"})


def test_without_captions_the_old_index_stays(photos: Path, tmp_path: Path) -> None:
    index_captions(open_source(photos), 0.0, tmp_path / "index")
    for text in photos.glob("*.txt"):
        text.unlink()
    with pytest.raises(DataError, match="has a caption: give photos with captions"):
        index_captions(open_source(photos), 0.0, tmp_path / "index")
    assert found(tmp_path / "index", "boat") == ["5.jpg"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "index" / "data-1"
    made.mkdir(parents=True)
    return made


def written(photos: Path, folder: Path, old: dict[str, Any], **facts: Any) -> dict[str, Any]:
    with TableWriter(folder, folder.parent, open_source(photos)) as table:
        table.add((number, Facts(**facts)) for number in range(6))
    return write_caption_index(folder, folder.parent, {"photos": table.name, "model": "m"}, old)


def found_beside(folder: Path, extra: dict[str, Any], query: str) -> list[str]:
    captions = extra["captions"]
    with Bm25Searcher(folder / captions["folder"], language=captions["language"]) as searcher:
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
    assert found_beside(folder, extra, "whales") == ["1.jpg"]
    assert len(found_beside(folder, extra, "lighthouse")) == len(found_beside(folder, extra, "sea")) == 6


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
    assert (found_beside(folder, first, "whale"), found_beside(folder, second, "whale")) == ([], ["1.jpg"])
    remove_old_captions(folder, keep="captions-2")
    assert [path.name for path in folder.glob("captions-*")] == ["captions-2"]
