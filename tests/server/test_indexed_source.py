from pathlib import Path

import pytest

from anserini_bridge import read_header
from lexlip.data import Given, open_library
from lexlip.errors import DataError
from lexlip.retrieval.collection import describe_collection, given_again
from lexlip.server.indexed_source import is_ignored, watched_places
from tests.conftest import write_photos
from tests.server.conftest import indexed_now


def test_a_source_is_found_where_it_is_now(tmp_path: Path, model_folder: Path) -> None:
    photos = write_photos(tmp_path / "photos")
    index = indexed_now(model_folder, photos, photos / "index")
    moved = photos.rename(tmp_path / "moved")
    extra = read_header(moved / "index").extra
    assert len(open_library(given_again(extra, moved / "index"))) == 6
    assert watched_places(moved / "index", extra) == [moved]
    assert not index.exists()


def test_all_folders_are_watched(tmp_path: Path) -> None:
    one, other = write_photos(tmp_path / "one", 1), write_photos(tmp_path / "other", 1)
    source = open_library(Given((str(one), str(other))))
    extra = describe_collection(source, tmp_path / "index", 0.0)
    assert watched_places(tmp_path / "index", extra) == [one, other]


@pytest.mark.parametrize("name", ["a.tar", "train-{000..002}.tar", "*.tar", "deeper*/*.tar", "table.tsv"])
def test_the_folder_of_a_file_is_watched(tmp_path: Path, name: str) -> None:
    extra = {"source": f"{tmp_path}/{name}", "relative": False}
    assert watched_places(tmp_path, extra) == [tmp_path]


def test_an_old_index_does_not_say(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="too old to say what it was made of"):
        watched_places(tmp_path, {})


def test_changes_of_indexes_and_hidden_files_are_ignored(tmp_path: Path) -> None:
    index, other = tmp_path / "index", tmp_path / "other"
    for folder in (index, other):
        (folder / "data-1").mkdir(parents=True)
        (folder / "index.json").touch()
    ignored = [
        *(index / "index.json", index / "thumbnails" / "ab" / "x.webp", other / "data-1" / "x", other / "y"),
        *(tmp_path / ".hidden", tmp_path / ".git" / "photo.jpg", tmp_path / "photo.jpg.tmp"),
    ]
    assert [path for path in ignored if not is_ignored(path, index)] == []
    for path in (tmp_path / "photo.jpg", tmp_path / "folder", tmp_path / "a" / "b" / "photo.txt"):
        assert not is_ignored(path, index)
