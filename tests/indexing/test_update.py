import os
import re
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lexlip
from anserini_bridge import ImpactSearcher, read_metadata, write_metadata
from anserini_bridge.bm25 import Bm25Searcher
from lexlip.data import Scenes, Unlisted, extra_kinds, open_source
from lexlip.data import source as data_source
from lexlip.data.extra_kinds import RAW
from lexlip.data.facts import decode_with_facts, digest
from lexlip.data.folder import FolderSource
from lexlip.data.images import READER
from lexlip.errors import ConfigError, DataError, ModelError
from lexlip.indexing import changes
from lexlip.indexing import update as update_module
from lexlip.indexing.report import Updated
from lexlip.indexing.update import check_deletions, update_photos
from lexlip.models.lexlip import LexLIP
from lexlip.retrieval.albums import Albums
from lexlip.retrieval.filters import Filters
from lexlip.retrieval.photo import Photo
from lexlip.retrieval.photo_table import PhotoTable, open_photos
from lexlip.search.photo_search import PhotoSearch
from tests.conftest import write_photos
from tests.data.made_raw import dng, drawing, jpeg
from tests.data.test_facts import xmp
from tests.data.test_raw import needs_rawpy
from tests.data.test_takeout import takeout
from tests.disks import mount, unmount
from tests.search import indexes
from tests.search.indexes import change_header, index_bm25, index_words

IDS = [f"{number}.jpg" for number in range(6)]


@pytest.fixture
def model(model_folder: Path, tmp_path: Path) -> Path:
    """A model that may be moved."""
    return Path(shutil.copytree(model_folder, tmp_path / "model"))


@pytest.fixture
def index(model: Path, photos: Path, tmp_path: Path) -> Path:
    """An index of six photos that is up to date."""
    folder = index_words(model, photos, tmp_path / "index")
    assert update(photos, folder).unchanged == 6  # though it says that it is of 2001
    return folder


def update(photos: Path, index: Path, **options: Any) -> Updated:
    return update_photos(open_source(photos), time.time(), index, workers=0, **options)


def counts(done: Updated) -> tuple[int, int, int, int]:
    return done.added, done.changed, done.deleted, done.unchanged


def state(index: Path) -> dict[Path, tuple[int, bytes]]:
    files = [path for path in index.rglob("*") if path.is_file()]
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def set_ahead(*paths: Path) -> None:
    """Let files be written in two minutes, however short a time a test takes."""
    for path in paths:
        os.utime(path, (time.time() + 120,) * 2)


def ids_of(index: Path) -> list[str]:
    with ImpactSearcher(index) as searcher:
        return sorted(searcher.ids())


def table(index: Path) -> PhotoTable:
    return open_photos(index, read_metadata(index))


def photo(index: Path, id: str) -> Photo:
    with table(index) as made:
        (found,) = made.get([id])
    assert found is not None
    return found


def new_photo(path: Path, seed: int) -> None:
    Scenes(1, seed=seed).image(0).save(path)


def test_the_index_is_as_one_made_anew(index: Path, model: Path, photos: Path, tmp_path: Path) -> None:
    new_photo(photos / "new.jpg", 7)
    new_photo(photos / "1.jpg", 8)
    (photos / "2.jpg").unlink()
    (photos / "3.jpg").write_text("no photo")
    set_ahead(photos / "1.jpg", photos / "3.jpg")
    done = update(photos, index)
    assert counts(done) == (1, 1, 2, 3)
    assert [skip.id for skip in done.skipped] == [".", "3.jpg"]  # 2.txt has no photo any more
    anew = index_words(model, photos, tmp_path / "anew")
    with ImpactSearcher(index) as updated, ImpactSearcher(anew) as other:
        ids = sorted(updated.ids())
        assert ids == sorted(other.ids()) == ["0.jpg", "1.jpg", "4.jpg", "5.jpg", "new.jpg"]
        assert (updated.vectors(ids) != other.vectors(ids)).nnz == 0


def test_a_photo_that_is_replaced_while_it_is_indexed_has_changed(
    model: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right after it was read; the clock does not go on meanwhile, but for the file itself."""
    read = FolderSource.photo

    def replacing(self: FolderSource, index: int, *size: Any) -> Any:
        found = read(self, index, *size)
        if index in (1, 4):
            new_photo(Path(self.path(index)), 20 + index)
        return found

    monkeypatch.setattr(FolderSource, "photo", replacing)
    folder = index_words(model, photos, tmp_path / "index")
    monkeypatch.undo()
    assert counts(update(photos, folder)) == (0, 2, 0, 4)
    anew = index_words(model, photos, tmp_path / "anew")
    with ImpactSearcher(folder) as updated, ImpactSearcher(anew) as other:
        assert (updated.vectors(IDS) != other.vectors(IDS)).nnz == 0


@pytest.mark.parametrize("wrong", [-86_400, 86_400])
def test_the_clock_may_be_wrong_when_an_index_is_made(
    model: Path, photos: Path, tmp_path: Path, wrong: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        now = time.time
        patch.setattr(time, "time", lambda: now() + wrong)
        patch.setattr(indexes, "LISTED", time.time())
        folder = index_words(model, photos, tmp_path / "index")
    new_photo(photos / "1.jpg", 8)
    done = update(photos, folder)
    assert counts(done) == (0, 1, 0, 5)
    assert round(done.listed_ahead / 86_400) == max(0, wrong // 86_400)
    assert update(photos, folder).listed_ahead == 0


def test_an_index_of_an_older_version_learns_states(index: Path, photos: Path) -> None:
    """So that from then on only these count."""
    (file,) = index.glob("data-*/photos-*.sqlite")
    with closing(sqlite3.connect(file)) as connection, connection:
        for column in ("photos DROP COLUMN state", "photos DROP COLUMN sum", "roots DROP COLUMN sum"):
            connection.execute(f"ALTER TABLE {column}")
        connection.execute("PRAGMA user_version = 1")
    metadata = read_metadata(index)
    metadata.extra["listed"] = time.time()
    write_metadata(index, replace(metadata, files={}))
    with table(index) as made:
        assert {photo.state for photo in made.listed().values()} == {""}
    (photos / "2.jpg").unlink()
    assert counts(update(photos, index)) == (0, 0, 1, 5)
    source = open_source(photos)
    with table(index) as made:
        states = {id: photo.state for id, photo in made.listed().items()}
    assert states == {item.id: source.state(number) for number, item in enumerate(source.items)}


def test_with_nothing_to_do_nothing_is_written_or_loaded(
    index: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(index)
    monkeypatch.setattr(LexLIP, "from_pretrained", pytest.fail)
    assert counts(update(photos, index)) == (0, 0, 0, 6)
    assert state(index) == before


# ---- where the model is ----


def test_a_new_place_of_the_model_is_found_by_later_searches(
    index: Path, model: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though no photo has changed; it is stored as an absolute path."""
    before = state(index)
    assert counts(update(photos, index, model_name=str(model))) == (0, 0, 0, 6)
    assert state(index) == before  # the same place changes nothing
    moved = model.rename(model.with_name("moved"))
    monkeypatch.chdir(moved.parent)
    assert counts(update(photos, index, model_name="moved")) == (0, 0, 0, 6)
    assert read_metadata(index).extra["model"] == str(moved)
    with PhotoSearch(index) as search:
        assert search.text("two dogs").hits
    for number, options in enumerate(({}, {"model_name": "moved"})):
        new_photo(photos / f"new{number}.jpg", 7 + number)
        assert counts(update(photos, index, **options)) == (1, 0, 0, 6 + number)
        assert read_metadata(index).extra["model"] == str(moved)


# ---- what is refused ----


def test_other_models_and_settings(index: Path, other_model: Path, photos: Path) -> None:
    before = state(index)
    with pytest.raises(ModelError, match=r"give the model that made it \(--model\), or index again"):
        update(photos, index, model_name=str(other_model))
    with pytest.raises(ModelError, match="no model 'maxi'"):
        update(photos, index, model_name="maxi")
    with pytest.raises(
        ConfigError, match="was made with --topk 32, not 16: leave --topk out, or index without"
    ):
        update(photos, index, topk_words=16)
    with pytest.raises(ConfigError, match="--quantization unit, not paper: leave --quantization out, "):
        update(photos, index, scheme="paper")
    assert counts(update(photos, index, topk_words=32, scheme="unit")) == (0, 0, 0, 6)
    assert state(index) == before


def test_what_is_no_index_of_these_photos(index: Path, photos: Path, tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"there is no index .*nothing to update: index once without --update"
    ):
        update(photos, tmp_path / "nothing")
    with pytest.raises(ConfigError, match="was made with bm25, and only an index of words can be updated"):
        update(photos, index_bm25(photos, tmp_path / "bm25"))
    (photos / "deep").mkdir()
    (photos / "0.jpg").rename(photos / "deep" / "0.jpg")
    with pytest.raises(DataError, match=f"was made from {photos}, not from {photos}/deep: "):
        update(photos / "deep", index)


def test_an_update_that_fails_changes_nothing(
    index: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batch is written already when encoding the second fails."""
    for number in range(10):
        shutil.copy(photos / "0.jpg", photos / f"new{number}.jpg")
    before = read_metadata(index)
    encode, batches = LexLIP.encode_image, []

    def fail(self: LexLIP, pixels: Any) -> Any:
        batches.append(len(pixels))
        if len(batches) > 1:
            raise KeyboardInterrupt
        return encode(self, pixels)

    monkeypatch.setattr(LexLIP, "encode_image", fail)
    with pytest.raises(KeyboardInterrupt):
        update(photos, index)
    assert batches == [8, 2]
    assert read_metadata(index) == before
    assert ids_of(index) == IDS
    with table(index) as made:
        assert sorted(made.select(Filters())) == IDS
    assert len(list(index.glob("data-*/photos-*"))) == 1


# ---- the table of photos ----


def test_the_table_changes_with_the_index(index: Path, photos: Path) -> None:
    before = read_metadata(index).extra["photos"]
    new_photo(photos / "new.jpg", 7)
    (photos / "new.txt").write_text("a whale\n")
    (photos / "2.jpg").unlink()
    with table(index) as old:
        update(photos, index)
        with table(index) as now:
            ids = sorted({*IDS, "new.jpg"} - {"2.jpg"})
            assert sorted(now.select(Filters())) == ids
            assert now.select(Filters(caption="Whale")) == ["new.jpg"]
            found = now.get(["new.jpg"])[0]
            assert found == found._replace(path=str(photos / "new.jpg"), width=96, height=96)
            assert found.digest == digest((photos / "new.jpg").read_bytes())
        assert sorted(old.select(Filters())) == IDS
    assert read_metadata(index).extra["photos"] != before
    new_photo(photos / "newer.jpg", 8)
    update(photos, index)
    assert not list(index.glob(f"data-*/{before}"))
    assert len(list(index.glob("data-*/photos-*"))) == 2  # that of now, and that of before


def test_an_index_of_an_older_version_gets_a_table(index: Path, photos: Path) -> None:
    metadata = read_metadata(index)
    name = metadata.extra.pop("photos")
    write_metadata(index, replace(metadata, files={}))
    (index / metadata.directory / name).unlink()
    (photos / "2.jpg").unlink()
    update(photos, index)
    with table(index) as made:
        assert sorted(made.select(Filters())) == sorted({*IDS} - {"2.jpg"})
        assert made.paths()["1.jpg"] == str(photos / "1.jpg")


# ---- photos that are known again ----


def test_a_moved_photo_is_not_encoded_again(
    index: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ImpactSearcher(index) as searcher:
        before = searcher.vectors(IDS)
    (photos / "deep").mkdir()
    for number in range(6):
        (photos / f"{number}.jpg").rename(photos / "deep" / f"{5 - number}.jpg")
    (photos / "5.txt").rename(photos / "deep" / "0.txt")
    Albums(index).change("some", ["gone.jpg", "4.jpg", "0.jpg"])
    monkeypatch.setattr(LexLIP, "from_pretrained", pytest.fail)
    done = update(photos, index)
    assert Albums(index).ids("some") == ["gone.jpg", "deep/1.jpg", "deep/5.jpg"]
    assert counts(done) == (0, 0, 0, 0)
    assert done.moved == 6
    assert ids_of(index) == [f"deep/{number}.jpg" for number in range(6)]
    with ImpactSearcher(index) as searcher:
        moved = searcher.vectors([f"deep/{5 - number}.jpg" for number in range(6)])
        assert (moved != before).nnz == 0
    with table(index) as made:
        assert made.paths()["deep/0.jpg"] == str(photos / "deep" / "0.jpg")
        (photo,) = made.get(["deep/0.jpg"])
        assert photo is not None
        assert photo.captions
        assert photo.width == 96
    assert counts(update(photos, index)) == (0, 0, 0, 6)


def test_renumbered_photos_are_not_encoded_again(
    index: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five names of six are those of other photos now, and two of them change names after that."""
    with ImpactSearcher(index) as searcher:
        before = searcher.vectors(IDS)
    Albums(index).change("some", ["2.jpg", "5.jpg"])
    for number in reversed(range(6)):
        (photos / f"{number}.jpg").rename(photos / f"{number + 1}.jpg")
    monkeypatch.setattr(LexLIP, "from_pretrained", pytest.fail)
    done = update(photos, index)
    assert (counts(done), done.moved) == ((0, 0, 0, 0), 6)
    with ImpactSearcher(index) as searcher:
        assert (searcher.vectors([f"{number}.jpg" for number in range(1, 7)]) != before).nnz == 0
    assert sorted(Albums(index).ids("some")) == ["3.jpg", "6.jpg"]
    for old, new in ("1.jpg", "x.jpg"), ("6.jpg", "1.jpg"), ("x.jpg", "6.jpg"):
        (photos / old).rename(photos / new)
    done = update(photos, index)
    assert (counts(done), done.moved) == ((0, 0, 0, 4), 2)
    assert sorted(Albums(index).ids("some")) == ["1.jpg", "3.jpg"]
    assert counts(update(photos, index)) == (0, 0, 0, 6)


def test_an_edited_photo_stays_in_its_album_beside_a_copy_of_what_it_was(index: Path, photos: Path) -> None:
    Albums(index).change("some", ["2.jpg"])
    shutil.copy(photos / "2.jpg", photos / "before.jpg")
    new_photo(photos / "2.jpg", seed=9)
    done = update(photos, index)
    assert (counts(done), done.moved) == ((1, 1, 0, 5), 0)
    assert Albums(index).ids("some") == ["2.jpg"]


def test_other_captions_are_stored_without_encoding(
    index: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (photos / "1.txt").write_text("a whale\n")
    monkeypatch.setattr(LexLIP, "from_pretrained", pytest.fail)
    done = update(photos, index)
    assert (counts(done), done.described) == ((0, 0, 0, 6), 1)
    with table(index) as made:
        assert made.select(Filters(caption="whale")) == ["1.jpg"]
    metadata = read_metadata(index)
    captions = metadata.extra["captions"]
    with Bm25Searcher(index / metadata.directory / captions["folder"]) as searcher:
        assert searcher.search(["whales"])[0][0] == ["1.jpg"]
    assert update(photos, index).described == 0


def test_an_xmp_file_that_comes_changes_and_goes(index: Path, photos: Path) -> None:
    def keywords() -> tuple[str, ...]:
        return photo(index, "1.jpg").keywords

    (photos / "1.xmp").write_bytes(xmp())
    assert counts(update(photos, index)) == (0, 1, 0, 5)
    assert keywords() == ("sea", "holidays 2019")
    assert counts(update(photos, index)) == (0, 0, 0, 6)
    (photos / "1.xmp").write_bytes(xmp().replace(b"sea", b"lake"))
    set_ahead(photos / "1.xmp")
    assert counts(update(photos, index)) == (0, 1, 0, 5)
    assert keywords() == ("lake", "holidays 2019")
    (photos / "1.xmp").unlink()
    assert counts(update(photos, index)) == (0, 1, 0, 5)
    assert keywords() == ()


def test_json_of_google_takeout_that_comes_changes_and_goes(index: Path, photos: Path) -> None:
    def captions() -> tuple[str, ...]:
        return photo(index, "1.jpg").captions[1:]  # behind that of 1.txt

    side = photos / "1.jpg.supplemental-metadata.json"
    side.write_bytes(takeout(description="our boat"))
    assert counts(update(photos, index)) == (0, 1, 0, 5)
    assert captions() == ("our boat",)
    assert counts(update(photos, index)) == (0, 0, 0, 6)
    side.write_bytes(takeout(description="our other boat"))
    assert counts(update(photos, index)) == (0, 1, 0, 5)
    assert captions() == ("our other boat",)
    side.unlink()
    assert counts(update(photos, index)) == (0, 1, 0, 5)
    assert captions() == ()


def test_two_xmp_files_beside_one_photo(index: Path, photos: Path) -> None:
    """Programs write either; that of the whole name comes first, and hides nothing of the other."""
    (photos / "1.xmp").write_bytes(xmp('xmp:CreateDate="2014-05-03T10:20:30"'))
    update(photos, index)
    (photos / "1.jpg.xmp").write_bytes(xmp().replace(b"sea", b"lake"))
    assert counts(update(photos, index)) == (0, 1, 0, 5)
    found = photo(index, "1.jpg")
    assert found.taken == "2014-05-03T10:20:30"
    assert found.keywords == ("lake", "holidays 2019", "sea")
    (photos / "1.jpg.xmp").write_bytes(xmp('xmp:CreateDate="2020-01-01T00:00:00"'))
    set_ahead(photos / "1.jpg.xmp")
    assert counts(update(photos, index)) == (0, 1, 0, 5)
    assert photo(index, "1.jpg").taken == "2020-01-01T00:00:00"
    (photos / "1.xmp").unlink()
    assert counts(update(photos, index)) == (0, 1, 0, 5)
    assert counts(update(photos, index)) == (0, 0, 0, 6)
    assert photo(index, "1.jpg").keywords == ("sea", "holidays 2019")


# ---- many photos that are gone ----


@pytest.mark.parametrize(
    ("deleted", "held", "fine"), [(4, 6, True), (5, 25, True), (5, 24, False), (6, 25, False)]
)
def test_a_fifth_of_an_index_may_be_deleted(deleted: int, held: int, fine: bool, tmp_path: Path) -> None:
    with nullcontext() if fine else pytest.raises(DataError, match=r"give --prune to delete them"):
        check_deletions(deleted, held, tmp_path)


def test_more_than_that_needs_prune(index: Path, photos: Path) -> None:
    before = state(index)
    for number in range(5):
        (photos / f"{number}.jpg").rename(photos / f"{number}.away")
    with pytest.raises(DataError) as caught:
        update(photos, index)
    assert str(caught.value) == (
        f"5 of the 6 photos of {index} are gone, as if a disk were not mounted: nothing was changed; give"
        " --prune to delete them"
    )
    assert state(index) == before
    assert counts(update(photos, index, prune=True)) == (0, 0, 5, 1)


def test_photos_that_cannot_be_read_any_more_count_too(index: Path, photos: Path) -> None:
    before = read_metadata(index)
    for number in range(5):
        (photos / f"{number}.jpg").write_bytes(b"")
        set_ahead(photos / f"{number}.jpg")
    with pytest.raises(DataError, match="give --prune to delete them"):
        update(photos, index)
    assert read_metadata(index) == before
    assert counts(update(photos, index, prune=True)) == (0, 0, 5, 1)


# ---- what is out of reach ----


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of folders that cannot be listed, and of files that cannot be opened."""
    names: set[str] = set()
    scandir, opened = os.scandir, os.open

    def fail(path: Any, *rest: Any) -> None:
        if not isinstance(path, int) and Path(os.fsdecode(path)).name in names:
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", lambda path: fail(path) or scandir(path))
    monkeypatch.setattr(os, "open", lambda path, *rest, **more: fail(path) or opened(path, *rest, **more))
    return names


@pytest.fixture
def shared_index(model: Path, photos: Path, tmp_path: Path) -> Path:
    """An index that is up to date, of whose seven photos three are in the folder `share`."""
    (photos / "share").mkdir()
    for number in range(3):
        (photos / f"{number}.jpg").rename(photos / "share" / f"{number}.jpg")
    new_photo(photos / "more.jpg", 6)
    folder = index_words(model, photos, tmp_path / "index")
    assert update(photos, folder).unchanged == 7
    return folder


def test_a_folder_that_cannot_be_listed_stays_until_prune(
    shared_index: Path, photos: Path, locked: set[str]
) -> None:
    index, before = shared_index, ids_of(shared_index)
    locked.add("share")
    written = state(index)
    done = update(photos, index)
    assert (counts(done), done.kept) == ((0, 0, 0, 4), 3)
    assert [place.id for place in done.unlisted] == ["share"]
    assert state(index) == written
    new_photo(photos / "new.jpg", 7)
    (photos / "more.jpg").unlink()
    done = update(photos, index)
    assert (counts(done), done.kept) == ((1, 0, 1, 3), 3)
    assert ids_of(index) == sorted({*before, "new.jpg"} - {"more.jpg"})
    with PhotoSearch(index) as search, search.now() as (_, known):
        assert all(known.get(["share/0.jpg", "new.jpg"]))
    done = update(photos, index, prune=True)
    assert (counts(done), done.kept) == ((0, 0, 3, 4), 0)


def test_what_changed_in_it_meanwhile_is_encoded_later(
    shared_index: Path, photos: Path, locked: set[str]
) -> None:
    locked.add("share")
    new_photo(photos / "share" / "1.jpg", 9)
    set_ahead(photos / "share" / "1.jpg")
    new_photo(photos / "new.jpg", 7)
    assert update_photos(open_source(photos), time.time() + 300, shared_index, workers=0).kept == 3
    locked.clear()
    done = update_photos(open_source(photos), time.time() + 600, shared_index, workers=0)
    assert (counts(done), done.kept) == ((0, 1, 0, 7), 0)
    assert "kept" not in read_metadata(shared_index).extra


@pytest.fixture
def disk(photos: Path) -> Iterator[Path]:
    """A disk with two photos among the others."""
    disk = photos / "disk"
    mount(disk, "-t", "tmpfs", "tmpfs")
    yield write_photos(disk, 2)
    if disk.is_mount():
        unmount(disk)


def test_a_disk_that_is_gone_takes_no_photo_along(
    model: Path, photos: Path, disk: Path, tmp_path: Path
) -> None:
    """However small its share is; what is on it counts again once it is back."""
    index = tmp_path / "index"
    kept = Path(shutil.copytree(disk, tmp_path / "kept"))
    new_photo(photos / "more.jpg", 6)
    index_words(model, photos, index)
    assert counts(update(photos, index)) == (0, 0, 0, 9)
    before = ids_of(index)
    unmount(disk)
    (photos / "more.jpg").unlink()
    done = update(photos, index)
    assert (counts(done), done.kept) == ((0, 0, 1, 6), 2)
    assert done.unlisted == [Unlisted("disk", "nothing is mounted there now")]
    disk.rmdir()  # as systems do that mount what is plugged in
    done = update(photos, index)
    assert (counts(done), done.kept, ids_of(index)) == ((0, 0, 0, 6), 2, sorted({*before} - {"more.jpg"}))
    mount(disk, "-t", "tmpfs", "tmpfs")
    new_photo(disk / "1.jpg", 9)
    shutil.copy(kept / "0.jpg", disk)
    done = update(photos, index)
    assert (counts(done), done.kept) == ((0, 2, 0, 6), 0)  # one was copied back
    (disk / "0.jpg").unlink()
    assert counts(update(photos, index)) == (0, 0, 1, 7)
    unmount(disk)
    assert update(photos, index).kept == 1
    done = update(photos, index, prune=True)
    assert (counts(done), done.kept, done.unlisted) == ((0, 0, 1, 6), 0, [])
    assert "mounts" not in read_metadata(index).extra


def test_photos_that_vanish_while_the_update_runs_stay(
    index: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were listed: it may be a disk that was taken away, and the next listing tells."""
    new_photo(photos / "1.jpg", 8)
    new_photo(photos / "new.jpg", 7)
    source = open_source(photos)
    read = FolderSource.read

    def vanish(self: FolderSource, index: int) -> bytes:
        for name in ("1.jpg", "new.jpg"):
            (photos / name).unlink(missing_ok=True)
        return read(self, index)

    with monkeypatch.context() as patch:
        patch.setattr(FolderSource, "read", vanish)
        done = update_photos(source, time.time(), index, workers=0)
    assert (counts(done), done.kept) == ((0, 0, 0, 5), 1)
    assert {skip.id for skip in done.skipped} == {"1.jpg", "new.jpg"}
    assert ids_of(index) == IDS
    assert counts(update(photos, index)) == (0, 0, 1, 5)


def test_the_folder_of_the_photos_vanishes_while_the_update_runs(
    index: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_photo(photos / "new.jpg", 7)
    source, before = open_source(photos), state(index)
    read = FolderSource.read

    def vanish(self: FolderSource, index: int) -> bytes:
        photos.rename(f"{photos}.away")
        return read(self, index)

    says = f"{photos} is not there any more: bring it back, and give the same command again"
    with monkeypatch.context() as patch:
        patch.setattr(FolderSource, "read", vanish)
        with pytest.raises(DataError, match=re.escape(says)):
            update_photos(source, time.time(), index, workers=0)
    assert state(index) == before
    Path(f"{photos}.away").rename(photos)
    assert counts(update(photos, index))[0] == 1


def test_a_photo_that_cannot_be_opened_now_stays(
    index: Path, photos: Path, locked: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_ahead(photos / "1.jpg")
    new_photo(photos / "new.jpg", 7)
    locked.update({"1.jpg", "new.jpg"})
    before = state(index)
    with monkeypatch.context() as patch:
        patch.setattr(LexLIP, "from_pretrained", pytest.fail)
        done = update(photos, index)
    assert (counts(done), done.kept) == ((0, 0, 0, 5), 1)
    assert sorted(done.skipped) == [("1.jpg", "Permission denied"), ("new.jpg", "Permission denied")]
    assert state(index) == before
    locked.clear()
    assert counts(update(photos, index)) == (1, 1, 0, 5)


def test_an_index_of_an_older_version_cannot_keep_photos(
    shared_index: Path, photos: Path, locked: set[str]
) -> None:
    metadata = read_metadata(shared_index)
    metadata.extra.pop("photos")
    metadata.extra["listed"] = time.time()
    write_metadata(shared_index, metadata)
    locked.add("share")
    with pytest.raises(DataError, match=r"^share is out of reach, and an older version made .* give --prune"):
        update(photos, shared_index)
    assert counts(update(photos, shared_index, prune=True)) == (0, 0, 3, 4)


# ---- unreadable photos are remembered ----


def test_what_could_not_be_read_is_tried_again_once_more_can_be_decoded(
    index: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (photos / "bad.jpg").write_text("no photo")
    update(photos, index)
    decoded: list[bytes] = []

    def count(data: bytes, *further: Any) -> Any:
        decoded.append(data)
        return decode_with_facts(data, *further)

    monkeypatch.setattr(data_source, "decode_with_facts", count)
    update(photos, index)
    assert decoded == []
    for module in (changes, update_module):
        monkeypatch.setattr(module, "READER", READER + 1)
    for _ in range(2):
        assert update(photos, index).skipped == [("bad.jpg", "not an image")]
    assert decoded == [b"no photo"]


def test_an_unreadable_photo_is_not_tried_again_until_it_changes(
    index: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (photos / "bad.jpg").write_text("no photo")
    assert counts(update(photos, index)) == (0, 0, 0, 6)
    before = state(index)
    with monkeypatch.context() as patch:
        patch.setattr(LexLIP, "from_pretrained", pytest.fail)
        for _ in range(2):
            done = update(photos, index)
            assert (counts(done), done.skipped) == ((0, 0, 0, 6), [("bad.jpg", "not an image")])
    assert state(index) == before
    new_photo(photos / "bad.jpg", 7)
    done = update(photos, index)
    assert (counts(done), done.skipped) == ((1, 0, 0, 6), [])
    with table(index) as made:
        assert made.unreadable() == {}


@needs_rawpy
def test_a_raw_file_is_a_photo_while_its_jpeg_is_away(index: Path, photos: Path, tmp_path: Path) -> None:
    raw_files = [photos / "1.DNG", photos / "new.dng"]
    for path in raw_files:
        path.write_bytes(dng(preview=jpeg(drawing())))
    done = update(photos, index)
    assert (counts(done), done.skipped) == ((1, 0, 0, 6), [])
    assert (done.files["photos"], done.files["beside"]) == (7, 7)  # six captions, and 1.DNG
    (photos / "1.jpg").rename(tmp_path / "1.jpg")
    assert counts(update(photos, index)) == (1, 0, 1, 6)
    assert {"1.DNG", "new.dng"} < {*ids_of(index)}
    assert photo(index, "1.DNG").taken == "2021-05-06T07:08:09"
    (tmp_path / "1.jpg").rename(photos / "1.jpg")
    assert counts(update(photos, index)) == (1, 0, 1, 6)
    raw_files[0].unlink()
    assert counts(update(photos, index)) == (0, 0, 0, 7)
    assert ids_of(index) == sorted([*IDS, "new.dng"])


@needs_rawpy
def test_raw_photos_stay_while_rawpy_is_missing(
    index: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.dng", "b.dng"):
        (photos / name).write_bytes(dng(preview=jpeg(drawing()), taken=f"2021:05:06 07:08:0{len(name)}"))
    assert counts(update(photos, index)) == (2, 0, 0, 6)
    with monkeypatch.context() as patch:
        patch.setattr(extra_kinds, "is_installed", lambda module: False)
        set_ahead(photos / "a.dng")
        (photos / "c.dng").write_bytes(dng())
        done = update(photos, index)
        assert (counts(done), done.kept) == ((0, 0, 0, 7), 1)
        assert [skip for skip in done.skipped if skip.reason != RAW.advice] == []
        assert sorted(skip.id for skip in done.skipped) == ["a.dng", "c.dng"]
    assert counts(update(photos, index)) == (1, 1, 0, 7)


def test_a_new_index_remembers_them_too(
    model: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (photos / "bad.jpg").write_text("no photo")
    lexlip.index(photos, tmp_path / "ix", model)
    monkeypatch.setattr(LexLIP, "from_pretrained", pytest.fail)
    done = lexlip.update(tmp_path / "ix")
    assert (counts(done), done.skipped) == ((0, 0, 0, 6), [("bad.jpg", "not an image")])


def test_a_table_of_an_older_version_remembers_none(index: Path, photos: Path) -> None:
    metadata = read_metadata(index)
    file = index / metadata.directory / metadata.extra["photos"]
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DROP TABLE unreadable")
    change_header(index, files=None)
    (photos / "bad.jpg").write_text("no photo")
    assert counts(update(photos, index)) == (0, 0, 0, 6)
    with table(index) as made:
        assert list(made.unreadable()) == ["bad.jpg"]
