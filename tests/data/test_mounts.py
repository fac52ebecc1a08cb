import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lexlip.data import Source
from lexlip.data.mounts import is_mounted, mount_points
from lexlip.data.open import open_source
from lexlip.data.views import Concat
from tests.conftest import write_photos
from tests.data.pictures import write_tar
from tests.disks import mount, unmount


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
