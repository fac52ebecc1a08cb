from pathlib import Path

import pytest

from anserini_bridge import folder_megabytes, read_metadata_as
from anserini_bridge.bm25 import Bm25Searcher
from lexlip.data import Skipped, open_source
from lexlip.errors import DataError
from lexlip.indexing.bm25 import NO_CAPTION, index_captions, write_captions
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


def test_a_folder_that_cannot_be_written(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"cannot write the index .*file/index: Not a directory"):
        index_captions(open_source(photos), 0.0, tmp_path / "file" / "index")
