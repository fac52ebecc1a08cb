import shutil
import tarfile
from pathlib import Path

import pytest

from lexlip.data import UnreadableImage, open_source
from lexlip.data.photo_location import read_location
from tests.data.pictures import jpeg, write, write_tar


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
