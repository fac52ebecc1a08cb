import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from anserini_bridge import IndexHeader
from lexlip.data import Scenes, open_source
from lexlip.data import folder as folder_module
from lexlip.data.facts import decode_with_facts
from lexlip.indexing.changes import Changes
from lexlip.indexing.known_again import find_known
from lexlip.indexing.table_writer import TableWriter
from lexlip.retrieval.photo_table import PhotoTable, open_photos


@pytest.fixture
def table(photos: Path, tmp_path: Path) -> PhotoTable:
    folder = tmp_path / "index" / "data-1"
    folder.mkdir(parents=True)
    source = open_source(photos)
    with TableWriter(folder, folder.parent, source) as writer:
        writer.add((number, decode_with_facts(source.read(number))[1]) for number in range(6))
    extra = {"photos": writer.name}
    return open_photos(
        folder.parent, IndexHeader(kind="impact", directory="data-1", documents=6, encoder="e", extra=extra)
    )


def found(
    photos: Path, table: PhotoTable, new: list[str], changed: list[str], gone: list[str]
) -> dict[str, str]:
    source = open_source(photos)
    numbers = {item.id: number for number, item in enumerate(source.items)}
    changes = Changes([numbers[id] for id in new], [numbers[id] for id in changed], gone, 0)
    known = find_known(source, changes, table)
    for number, (id, facts) in known.items():
        (before,) = table.get([id])
        assert before is not None
        assert (facts.size, facts.digest, facts.fingerprint) == (
            before.size,
            before.digest,
            before.fingerprint,
        )
        assert facts.width == before.width
        assert facts.state == source.state(number)
        assert replace(facts, state="") == decode_with_facts(source.read(number))[1]
    return {source.items[number].id: id for number, (id, _) in known.items()}


def test_renamed_and_moved_photos(photos: Path, table: PhotoTable) -> None:
    (photos / "deep").mkdir()
    (photos / "0.jpg").rename(photos / "deep" / "0.jpg")
    (photos / "1.jpg").rename(photos / "other name.jpg")
    Scenes(1, seed=9).image(0).save(photos / "new.jpg")
    new = ["deep/0.jpg", "other name.jpg", "new.jpg"]
    names = found(photos, table, new, [], ["0.jpg", "1.jpg"])
    assert names == {"deep/0.jpg": "0.jpg", "other name.jpg": "1.jpg"}


def test_photos_that_change_names_with_each_other(photos: Path, table: PhotoTable) -> None:
    """Each has another content now, which only photos that are gone would have."""
    (photos / "0.jpg").rename(photos / "x.jpg")
    (photos / "1.jpg").rename(photos / "0.jpg")
    (photos / "x.jpg").rename(photos / "1.jpg")
    assert found(photos, table, [], ["0.jpg", "1.jpg"], []) == {}


def test_of_two_copies_one_is_the_photo_that_is_gone(photos: Path, table: PhotoTable) -> None:
    shutil.copy(photos / "0.jpg", photos / "copy.jpg")
    (photos / "0.jpg").rename(photos / "name.jpg")
    assert found(photos, table, ["copy.jpg", "name.jpg"], [], ["0.jpg"]) == {"copy.jpg": "0.jpg"}


def test_a_photo_that_was_only_touched(photos: Path, table: PhotoTable) -> None:
    Scenes(1, seed=9).image(0).save(photos / "1.jpg")
    assert found(photos, table, [], ["0.jpg", "1.jpg"], []) == {"0.jpg": "0.jpg"}


def test_only_files_of_a_size_that_fits_are_read(
    photos: Path, table: PhotoTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    (photos / "new.jpg").write_bytes((photos / "0.jpg").read_bytes() + b"more")
    source = open_source(photos)
    monkeypatch.setattr(folder_module, "read_file", pytest.fail)
    number = [item.id for item in source.items].index("new.jpg")
    assert find_known(source, Changes([number], [], ["1.jpg"], 0), table) == {}


def test_a_file_that_vanishes(photos: Path, table: PhotoTable) -> None:
    source = open_source(photos)
    (photos / "0.jpg").unlink()
    assert find_known(source, Changes([0], [], ["0.jpg"], 0), table) == {}
