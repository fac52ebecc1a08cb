import os
import shutil
import tarfile
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lexlip.data import Source, UnreadableImage, open_source
from lexlip.data.files import (
    OutOfReach,
    cache_folder,
    is_mounted,
    modified,
    mount_points,
    open_file,
    path_of,
    read_beside,
    read_file,
    read_location,
    state_of,
)
from lexlip.data.source import Concat
from lexlip.errors import DataError
from tests.conftest import write_photos
from tests.data.pictures import jpeg, write, write_tar
from tests.disks import mount, unmount


def reason(path: Path, read: Callable[..., bytes] = read_file, **options: Any) -> str:
    with pytest.raises(UnreadableImage) as caught:
        read(path, **options)
    assert not isinstance(caught.value, OutOfReach)
    return caught.value.reason


def test_a_file_and_a_part_of_it(tmp_path: Path) -> None:
    file = write(tmp_path / "a", b"0123456789")
    assert read_file(file) == b"0123456789"
    assert read_file(file, 2, 3) == b"234"
    assert reason(file, offset=8, size=3) == "truncated"
    assert reason(tmp_path / "none") == "No such file or directory"
    assert reason(tmp_path) == "Is a directory"
    assert reason(tmp_path / ("x" * 300)) == "File name too long"


def test_what_never_ends_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        assert reason(tmp_path / name) == "not a file"
        with pytest.raises(UnreadableImage, match="not a file"):
            open_file(tmp_path / name)


def test_what_does_not_fit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(20 << 30)
    assert reason(tmp_path / "sparse") == "21,474,836,480 bytes: more than 1,073,741,824"
    assert reason(tmp_path / "sparse", size=2**31) == "2,147,483,648 bytes: more than 1,073,741,824"
    assert (
        reason(tmp_path / "sparse", lambda path: read_beside(path, []))
        == "21,474,836,480 bytes: more than 1,048,576"
    )
    assert read_file(tmp_path / "sparse", 2**33, 4) == bytes(4)


def test_a_file_that_may_be_readable_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "a", b"0")

    def fail(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OutOfReach):
        read_file(tmp_path / "loop")
    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(OutOfReach, match="Permission denied"):
        read_file(file)


def test_the_state_of_a_file_changes_when_it_is_written_or_moved_here(tmp_path: Path) -> None:
    file = write(tmp_path / "a", b"0")
    before = state_of(file)
    assert before == state_of(file)
    os.utime(file, ns=(0, 2**62))
    now = state_of(file)
    assert now is not None
    assert (now.size, now.times[0], now.written) == (1, 2**62, 2**62)
    assert str(now) == f"1 {2**62} {file.stat().st_ctime_ns}"
    (tmp_path / "link").symlink_to(file)
    of_link = state_of(tmp_path / "link")
    assert of_link is not None
    assert (of_link.size, of_link.times[:2], len(of_link.times)) == (1, now.times, 4)
    assert state_of(tmp_path / "none") is None


def test_when_a_file_was_modified(tmp_path: Path) -> None:
    photo, side = tmp_path / "photo.jpg", tmp_path / "photo.xmp"
    for written in (datetime(2019, 7, 1, 12, 30), datetime(1969, 12, 30, 1)):
        for path in (photo, side):
            path.write_bytes(b"no matter")
        os.utime(photo, (0, written.timestamp()))
        assert modified(f"{state_of(photo)}") == written.isoformat()
        assert modified(f"{state_of(photo)}; {state_of(side)}") == written.isoformat()
    link = tmp_path / "link.jpg"
    link.symlink_to(photo)
    assert modified(str(state_of(link))) == written.isoformat()
    for unknown in ("", "12", "12 x 3", f"1 {'9' * 21} 1", "1 -99999999999999999999 1", f"1 {'9' * 5000} 1"):
        assert modified(unknown) is None


def test_a_user_who_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert path_of("~/photos") == Path("/home/me/photos")
    with pytest.raises(DataError, match=r"^~nosuchuser/x names a user who does not exist: write \./~nosuch"):
        path_of("~nosuchuser/x")


def test_a_user_without_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "lexlip"
    monkeypatch.setattr(os.path, "expanduser", str)  # as where HOME is not set, nor in /etc/passwd
    with pytest.raises(FileNotFoundError, match="this user has no home folder: set XDG_CACHE_HOME"):
        cache_folder()
    with pytest.raises(DataError, match=r"^~/x: this user has no home folder: "):
        path_of("~/x")


def test_every_path_of_a_source_can_be_read_again(tmp_path: Path) -> None:
    write(tmp_path / "photos" / "a b" / "ü.jpg", jpeg(colour="red"))
    write(tmp_path / "photos" / "x.tar" / "in a folder.jpg", jpeg(colour="green"))
    write_tar(
        tmp_path / "tars" / "t.v1.tar", {"./k/1.jpg": jpeg(colour="blue"), "2.tar.jpg": jpeg(colour="pink")}
    )
    for name in ("photos", "tars"):
        source = open_source(tmp_path / name)
        assert len(source) == 2
        for number in range(2):
            assert read_location(source.path(number)) == source.read(number)


def test_what_is_gone(tmp_path: Path) -> None:
    tar = write_tar(tmp_path / "t.tar", {"a.jpg": jpeg(), "folder/b.jpg": jpeg()})
    with pytest.raises(UnreadableImage, match=r"c\.jpg: No such file or directory"):
        read_location(str(tmp_path / "c.jpg"))
    with pytest.raises(UnreadableImage, match=r"t\.tar/c\.jpg: not in the tar"):
        read_location(f"{tar}/c.jpg")
    with pytest.raises(UnreadableImage, match="Is a directory"):
        read_location(str(tmp_path))
    tar.write_bytes(b"no tar" * 1000)
    with pytest.raises(UnreadableImage, match=r"t\.tar/a\.jpg: not in the tar"):
        read_location(f"{tar}/a.jpg")
    tar.unlink()
    with pytest.raises(UnreadableImage, match=r"t\.tar/a\.jpg: No such file or directory"):
        read_location(f"{tar}/a.jpg")


def test_a_truncated_tar_and_a_repeated_name(tmp_path: Path) -> None:
    tar = write_tar(tmp_path / "T.TAR", {"a.jpg": jpeg(colour="red"), "b.jpg": jpeg()})
    with tarfile.open(tar, "a") as file:
        file.add(write(tmp_path / "new", jpeg(colour="blue")), "a.jpg")
        file.add(write(tmp_path / "rest", bytes(5000)), "c.jpg")
    tar.write_bytes(tar.read_bytes()[:-12_000])
    source = open_source(tar)
    assert [read_location(source.path(n)) for n in range(2)] == [jpeg(colour="blue"), jpeg()]


def test_a_tar_that_was_moved_with_what_lies_beside_it(tmp_path: Path) -> None:
    write_tar(tmp_path / "old" / "t.tar", {"a.jpg": jpeg()})
    shutil.move(tmp_path / "old", tmp_path / "new")
    assert read_location(f"{tmp_path}/new/t.tar/a.jpg") == jpeg()


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Path]:
    """Photos with a disk among them, a disk on that one, and a folder bound to another of the same disk."""
    library, other = tmp_path / "library", tmp_path / "other"
    write_photos(library / "own")
    other.mkdir()
    mounts = library / "a disk", library / "a disk" / "of its own" / "x", library / "bound"
    mount(mounts[0], "-t", "tmpfs", "tmpfs")
    mounts[1].parent.mkdir()
    mount(mounts[1], "-t", "tmpfs", "tmpfs")
    mount(mounts[2], "--bind", str(other))
    for place in mounts:
        write_photos(place / "deep")
    yield library
    for place in reversed(mounts):
        if os.path.ismount(place) or place == mounts[2]:
            unmount(place)


def mounts(source: Source) -> dict[str, str]:
    return mount_points(map(source.file_id, range(len(source))))


def test_where_disks_begin(library: Path) -> None:
    found = {name: str(library / name) for name in ("a disk", "a disk/of its own/x", "bound")}
    assert mounts(open_source(library)) == found
    two = Concat([open_source(library), open_source(library / "own")])
    assert mounts(two) == {f"library/{name}": path for name, path in found.items()}
    assert mounts(open_source(library / "own")) == {}
    assert [is_mounted(path) for path in (*found.values(), str(library / "own"))] == [True, True, True, False]


def test_a_tar_on_a_disk(library: Path) -> None:
    tars = library / "own" / "tars"
    tars.mkdir()
    mount(tars / "disk", "-t", "tmpfs", "tmpfs")
    try:
        for tar in (tars / "0.tar", tars / "disk" / "1.tar"):
            write_tar(tar, {"a.jpg": (library / "own" / "0.jpg").read_bytes()})
        assert mounts(open_source(tars)) == {"disk": str(tars / "disk")}
    finally:
        unmount(tars / "disk")
    assert not is_mounted(str(tars / "disk"))


def test_an_empty_disk_is_as_none(tmp_path: Path) -> None:
    mount(tmp_path / "disk", "-t", "tmpfs", "tmpfs")
    try:
        assert not is_mounted(str(tmp_path / "disk"))
        (tmp_path / "disk" / "note.txt").touch()
        assert is_mounted(str(tmp_path / "disk"))
    finally:
        unmount(tmp_path / "disk")
    assert not is_mounted(str(tmp_path / "missing"))
    assert not is_mounted("a\0b")
