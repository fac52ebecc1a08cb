import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from lexlip.data import open_source
from lexlip.data.facts import Facts
from lexlip.indexing.table_writer import TableWriter, remove_old_tables
from lexlip.retrieval.filters import Filters
from lexlip.retrieval.photo_table import PhotoTable, open_photos
from tests.retrieval.test_photo_table import header


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "index" / "data-1"
    made.mkdir(parents=True)
    return made


def opened(folder: Path, name: str) -> PhotoTable:
    return open_photos(folder.parent, header(name))


def test_an_update_is_a_new_file_and_the_old_one_stays(photos: Path, folder: Path) -> None:
    source = open_source(photos)
    with TableWriter(folder, folder.parent, source) as first:
        first.add((number, Facts(width=number, keywords=("sea",))) for number in range(5))
    before = (folder / first.name).read_bytes()
    (photos / "4.txt").write_text("a whale\n")
    source = open_source(photos)
    with TableWriter(folder, folder.parent, source, first.name) as second:
        second.add([(5, Facts(width=50)), (1, Facts(width=10))])
        second.delete(["2.jpg", "none.jpg"])
        second.refresh([0, 3, 4])
    assert (first.name, second.name) == ("photos-1.sqlite", "photos-2.sqlite")
    assert (folder / first.name).read_bytes() == before
    with opened(folder, second.name) as table:
        ids = [f"{number}.jpg" for number in range(6)]
        assert [photo and photo.width for photo in table.get(ids)] == [0, 10, None, 3, 4, 50]
        assert table.select(Filters(caption="whale sea")) == ["4.jpg"]
        assert table.get(["4.jpg"])[0].captions == ("a whale",)  # type: ignore[union-attr]
        found, texts = table.texts()
        assert found == ["0.jpg", "1.jpg", "3.jpg", "4.jpg", "5.jpg"]
        assert texts[3] == "a whale sea"
    remove_old_tables(folder, keep=second.name)
    assert [path.name for path in folder.iterdir()] == ["photos-2.sqlite"]


def test_a_table_of_an_older_index_begins_with_what_the_listing_tells(photos: Path, folder: Path) -> None:
    with TableWriter(folder, folder.parent, open_source(photos)) as table:
        table.add([(0, Facts(width=7))])
        table.refresh([1, 2])
    with opened(folder, table.name) as made:
        found = made.get(["0.jpg", "1.jpg", "2.jpg", "3.jpg"])
        assert [photo and (photo.width, bool(photo.captions)) for photo in found] == [
            *((7, True), (0, True), (0, True), None)
        ]


def test_photos_that_moved_are_found_where_they_lie_now(photos: Path, folder: Path) -> None:
    source = open_source(photos)
    with TableWriter(folder, folder.parent, source) as first:
        first.add((number, Facts()) for number in range(6))
    photos.rename(photos.with_name("moved"))
    source = open_source(photos.with_name("moved"))
    with TableWriter(folder, folder.parent, source, first.name) as second:
        second.refresh(range(6))
    with opened(folder, second.name) as table:
        assert table.paths()["0.jpg"] == str(photos.with_name("moved") / "0.jpg")
        assert table.read("0.jpg")


def test_a_failure_leaves_nothing(photos: Path, folder: Path) -> None:
    with pytest.raises(IndexError), TableWriter(folder, folder.parent, open_source(photos)) as writer:
        writer.add([(0, Facts()), (99, Facts())])
    assert list(folder.iterdir()) == []


def test_fingerprints_are_kept_whole(photos: Path, folder: Path) -> None:
    values = [0, 1, 2**63 - 1, 2**63, 2**64 - 1, None]
    with TableWriter(folder, folder.parent, open_source(photos)) as writer:
        writer.add((number, Facts(fingerprint=value)) for number, value in enumerate(values))
    with opened(folder, writer.name) as table:
        found = table.get([f"{number}.jpg" for number in range(6)])
        assert [photo and photo.fingerprint for photo in found] == values
    with closing(sqlite3.connect(folder / writer.name)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
