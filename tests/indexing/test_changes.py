"""States and times are given rather than waited for."""

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lexlip.data import Scenes, Source, Unlisted, files, open_source
from lexlip.data.facts import decode_with_facts
from lexlip.indexing.changes import Changes, find_changes, find_known, kept_since
from lexlip.indexing.table_writer import side_names
from lexlip.retrieval.photo import Listed
from lexlip.retrieval.photo_table import PhotoTable
from tests.conftest import write_photos
from tests.data.pictures import write, write_tar
from tests.retrieval.test_photo_table import table as table_of

IDS = [f"{number}.jpg" for number in range(6)]


def told(source: Source) -> dict[str, Listed]:
    """What an index stores of photos that are read now."""
    numbers = range(len(source))
    return {source.items[n].id: Listed((), side_names(source, n), source.state(n)) for n in numbers}


def changes(photos: Path, stored: dict[str, Listed], held: list[str] | None = None) -> Changes:
    return find_changes(open_source(photos), stored if held is None else held, {"listed": 0.0}, stored)


def replace_with_its_times(file: Path, by: Path) -> None:
    """Replace a file by another one of equal times, as a copy from a camera does; only its size tells."""
    times = file.stat()
    file.write_bytes(by.read_bytes())
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize("seconds", [-86_400, 0, 86_400])
def test_what_has_another_state_has_changed(photos: Path, seconds: int) -> None:
    """Whatever the clock says now, said then, or wrote into the files."""
    for name in ("1.jpg", "2.jpg", "3.jpg"):
        os.utime(photos / name, (time.time() + seconds,) * 2)
    stored = told(open_source(photos))
    assert changes(photos, stored) == Changes([], [], [], 6)
    os.utime(photos / "1.jpg", (0, 0))
    replace_with_its_times(photos / "2.jpg", photos / "4.jpg")
    (photos / "5.jpg").rename(photos / "3.jpg")
    assert changes(photos, stored) == Changes([], [1, 2, 3], ["5.jpg"], 2)


def test_xmp_files_that_come_change_and_go(photos: Path) -> None:
    for number in (0, 1, 2):
        write(photos / f"{number}.xmp", "<x/>")
    stored = told(open_source(photos))
    write(photos / "0.xmp", "<x> </x>")
    (photos / "1.xmp").unlink()
    (photos / "2.xmp").rename(photos / "2.jpg.xmp")
    write(photos / "3.xmp", "<x/>")
    assert changes(photos, stored).changed == [0, 1, 2, 3]


def test_a_link_has_changed_with_itself_and_with_its_photo(photos: Path, tmp_path: Path) -> None:
    elsewhere = write_photos(tmp_path / "elsewhere", 3)
    for number in range(3):
        (photos / f"{number}.jpg").unlink()
        (photos / f"{number}.jpg").symlink_to(elsewhere / f"{number}.jpg")
    stored = told(open_source(photos))
    os.utime(photos / "0.jpg", (1, 1), follow_symlinks=False)
    os.utime(elsewhere / "1.jpg", (1, 1))
    assert changes(photos, stored).changed == [0, 1]


def test_photos_in_a_tar_change_with_it(photos: Path, tmp_path: Path) -> None:
    tars = tmp_path / "tars"
    for name, numbers in (("a.tar", (0, 1)), ("b.tar", (2, 3, 4))):
        write_tar(tars / name, {f"{n}.jpg": (photos / f"{n}.jpg").read_bytes() for n in numbers})
    stored = told(open_source(tars))
    os.utime(tars / "b.tar", (1, 1))
    assert changes(tars, stored) == Changes([], [2, 3, 4], [], 2)


def test_new_photos_and_those_that_are_gone(photos: Path) -> None:
    held = ["0.jpg", "2.jpg", "z.jpg", "a/b.jpg"]
    stored = told(open_source(photos))
    assert changes(photos, stored, held) == Changes([1, 3, 4, 5], [], ["a/b.jpg", "z.jpg"], 2)
    assert changes(photos, stored, []) == Changes([0, 1, 2, 3, 4, 5], [], [], 0)


def test_of_a_table_a_photo_that_lies_elsewhere_now_has_changed(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "table.tsv").write_text("image\tcaption\n0.jpg\ta dog\ny/1.jpg\ta cat\n")
    source = open_source(tmp_path / "table.tsv", photos)
    paths = {item.id: source.path(number) for number, item in enumerate(source.items)}
    extra: dict[str, Any] = {"listed": 0.0, "paths": paths}
    held, stored = [item.id for item in source.items], told(source)
    assert find_changes(source, held, extra, stored) == Changes([], [], [], 2)
    extra["paths"]["y/1.jpg"] = str(photos / "old" / "1.jpg")
    assert find_changes(source, held, extra, stored) == Changes([], [1], [], 1)


def test_a_file_that_is_not_there_counts_as_changed(photos: Path) -> None:
    """Reading it says why."""
    source = open_source(photos)
    stored = told(source)
    (photos / "2.jpg").unlink()
    assert find_changes(source, IDS, {"listed": 0.0}, stored) == Changes([], [2], [], 5)


def test_no_photo_is_opened(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: Callable[..., bytes] = files.read_file
    source = open_source(photos)
    opened: list[str] = []
    monkeypatch.setattr(files, "read_file", lambda path, *part: opened.append(path) or read(path, *part))
    find_changes(source, IDS, {"listed": 0.0}, told(source))
    assert opened == []


# ---- indexes that do not know states ----


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> float:
    """After everything that a test writes, and a minute ago."""
    monkeypatch.setattr("lexlip.indexing.changes.time", lambda: time.time() + 120)
    return time.time() + 60


def since(photos: Path, listed: float) -> Changes:
    stored = {id: Listed((), "", "") for id in IDS}
    return find_changes(open_source(photos), IDS, {"listed": listed}, stored)


def test_what_was_written_since_the_listing_has_changed(photos: Path, later: float) -> None:
    source = open_source(photos)
    states = {item.id: source.state(number) for number, item in enumerate(source.items)}
    assert since(photos, later) == Changes([], [], [], 6, states=states)  # which are known from now on
    assert since(photos, later - 120) == Changes([], [0, 1, 2, 3, 4, 5], [], 0)
    os.utime(photos / "3.jpg", (later + 1, later + 1))
    assert since(photos, later).changed == [3]


def test_if_the_listing_is_still_to_come_all_have_changed(photos: Path, later: float) -> None:
    assert since(photos, later + 61).changed == [0, 1, 2, 3, 4, 5]


def test_an_older_photo_that_was_moved_here_has_changed(photos: Path, later: float) -> None:
    """Only the time at which it was moved tells."""
    for name in IDS:
        os.utime(photos / name, (0, 0))
    assert since(photos, later - 120).changed == [0, 1, 2, 3, 4, 5]
    assert since(photos, later).changed == []


# ---- what cannot be listed ----


def test_photos_below_what_cannot_be_listed_may_be_there(photos: Path, later: float) -> None:
    source = open_source(photos)
    places = (("share", "gone"), ("a.tar", "truncated"), ("x.jpg", "loop", 1))
    source.unlisted = [Unlisted(*place) for place in places]
    held = ["share/deep/b.jpg", "share2/c.jpg", "a.tar/d.jpg", "x.jpg", "z.jpg", *IDS]
    found = find_changes(source, held, {"listed": later})
    assert found.kept == ["a.tar/d.jpg", "share/deep/b.jpg", "x.jpg"]
    assert found.gone == ["share2/c.jpg", "z.jpg"]
    source.unlisted = [Unlisted("", "gone")]
    assert find_changes(source, held, {"listed": later}).gone == []


def test_what_changed_while_its_place_could_not_be_listed_has_changed(photos: Path, later: float) -> None:
    """The index was written in between, when only the rest was listed."""
    extra: dict[str, Any] = {"listed": later, "kept": {"3.jpg": later - 120, "share": 5.0}}
    assert find_changes(open_source(photos), IDS, extra).changed == [3]
    since = {"share/deep": 5.0, "3.jpg": later - 120, "new": later, "": 5.0}
    assert kept_since(since, extra) == since


@pytest.fixture
def table(photos: Path, tmp_path: Path) -> PhotoTable:
    source = open_source(photos)
    return table_of(source, tmp_path / "index", [decode_with_facts(source.read(n))[1] for n in range(6)])


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
        for name in ("size", "digest", "fingerprint", "width"):
            assert getattr(facts, name) == getattr(before, name)
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
    (photos / "0.jpg").rename(photos / "x.jpg")
    (photos / "1.jpg").rename(photos / "0.jpg")
    (photos / "x.jpg").rename(photos / "1.jpg")
    assert found(photos, table, [], ["0.jpg", "1.jpg"], []) == {"0.jpg": "1.jpg", "1.jpg": "0.jpg"}


def test_renumbered_photos(photos: Path, table: PhotoTable) -> None:
    for number in reversed(range(6)):
        (photos / f"{number}.jpg").rename(photos / f"{number + 1}.jpg")
    names = found(photos, table, ["6.jpg"], [f"{number}.jpg" for number in range(1, 6)], ["0.jpg"])
    assert names == {f"{number + 1}.jpg": f"{number}.jpg" for number in range(6)}


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
    monkeypatch.setattr(files, "read_file", pytest.fail)
    number = [item.id for item in source.items].index("new.jpg")
    assert find_known(source, Changes([number], [], ["1.jpg"], 0), table) == {}


def test_a_file_that_vanishes(photos: Path, table: PhotoTable) -> None:
    source = open_source(photos)
    (photos / "0.jpg").unlink()
    assert find_known(source, Changes([0], [], ["0.jpg"], 0), table) == {}
