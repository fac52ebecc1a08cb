"""Times are given rather than waited for: an index may have been listed a minute ago, or in a minute."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lexlip.data import Unlisted, open_source
from lexlip.data import folder as folder_module
from lexlip.indexing.changes import Changes, find_changes, kept_since
from tests.conftest import write_photos
from tests.data.pictures import write_tar

IDS = [f"{number}.jpg" for number in range(6)]


@pytest.fixture
def later() -> float:
    """After everything that a test writes."""
    return time.time() + 60


def changes(photos: Path, listed: float, held: list[str] | None = None) -> Changes:
    return find_changes(open_source(photos), IDS if held is None else held, {"listed": listed})


def test_what_was_written_before_the_listing_is_unchanged(photos: Path, later: float) -> None:
    assert changes(photos, later) == Changes([], [], [], 6)


def test_what_was_written_since_has_changed(photos: Path, later: float) -> None:
    assert changes(photos, later - 120) == Changes([], [0, 1, 2, 3, 4, 5], [], 0)
    os.utime(photos / "3.jpg", (later + 1, later + 1))
    assert changes(photos, later) == Changes([], [3], [], 5)


def test_new_photos_and_those_that_are_gone(photos: Path, later: float) -> None:
    held = ["0.jpg", "2.jpg", "z.jpg", "a/b.jpg"]
    assert changes(photos, later, held) == Changes([1, 3, 4, 5], [], ["a/b.jpg", "z.jpg"], 2)
    assert changes(photos, later, []) == Changes([0, 1, 2, 3, 4, 5], [], [], 0)


def test_an_older_photo_that_was_moved_here_has_changed(photos: Path, later: float) -> None:
    """Only the time at which it was moved tells."""
    for name in IDS:
        os.utime(photos / name, (0, 0))
    assert changes(photos, later - 120).changed == [0, 1, 2, 3, 4, 5]
    assert changes(photos, later).changed == []


def test_a_link_has_changed_with_itself_and_with_its_photo(
    photos: Path, tmp_path: Path, later: float
) -> None:
    elsewhere = write_photos(tmp_path / "elsewhere", 2)
    for number in (0, 1):
        (photos / f"{number}.jpg").unlink()
        (photos / f"{number}.jpg").symlink_to(elsewhere / f"{number}.jpg")
    assert changes(photos, later).changed == []
    os.utime(photos / "0.jpg", (later + 1, later + 1), follow_symlinks=False)
    os.utime(elsewhere / "1.jpg", (later + 1, later + 1))
    assert changes(photos, later).changed == [0, 1]


def test_photos_in_a_tar_change_with_it(photos: Path, tmp_path: Path, later: float) -> None:
    tars = tmp_path / "tars"
    for name, numbers in (("a.tar", (0, 1)), ("b.tar", (2, 3, 4))):
        write_tar(tars / name, {f"{n}.jpg": (photos / f"{n}.jpg").read_bytes() for n in numbers})
    held = [item.id for item in open_source(tars).items]
    os.utime(tars / "b.tar", (later + 1, later + 1))
    assert changes(tars, later, held) == Changes([], [2, 3, 4], [], 2)


def test_of_a_table_a_photo_that_lies_elsewhere_now_has_changed(
    photos: Path, tmp_path: Path, later: float
) -> None:
    (tmp_path / "table.tsv").write_text("image\tcaption\n0.jpg\ta dog\ny/1.jpg\ta cat\n")
    source = open_source(tmp_path / "table.tsv", photos)
    paths = {item.id: source.path(number) for number, item in enumerate(source.items)}
    extra: dict[str, Any] = {"listed": later, "paths": paths}
    held = [item.id for item in source.items]
    assert find_changes(source, held, extra) == Changes([], [], [], 2)
    extra["paths"]["y/1.jpg"] = str(photos / "old" / "1.jpg")
    assert find_changes(source, held, extra) == Changes([], [1], [], 1)


def test_a_file_that_is_not_there_counts_as_changed(photos: Path, later: float) -> None:
    """Reading it says why."""
    source = open_source(photos)
    (photos / "2.jpg").unlink()
    assert find_changes(source, IDS, {"listed": later}) == Changes([], [2], [], 5)


def test_no_photo_is_opened(photos: Path, later: float, monkeypatch: pytest.MonkeyPatch) -> None:
    read: Callable[..., bytes] = folder_module.read_file
    source = open_source(photos)
    opened: list[str] = []
    monkeypatch.setattr(folder_module, "read_file", lambda path: opened.append(path) or read(path))
    find_changes(source, IDS, {"listed": later})
    assert opened == []


# ---- what cannot be listed ----


def test_photos_below_what_cannot_be_listed_may_be_there(photos: Path, later: float) -> None:
    source = open_source(photos)
    source.unlisted = [
        Unlisted("share", "gone"),
        Unlisted("a.tar", "truncated"),
        Unlisted("x.jpg", "loop", 1),
    ]
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
    assert kept_since(["share/deep", "3.jpg", "new", ""], extra) == {
        "share/deep": 5.0,
        "3.jpg": later - 120,
        "new": later,
        "": 5.0,
    }
