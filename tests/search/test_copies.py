import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lexlip.data.files import read_location
from lexlip.errors import DataError
from lexlip.retrieval.answer import Hit
from lexlip.search.copies import check_folder, copy_hits


def hit(path: Path) -> Hit:
    return Hit(1, str(path), str(path), 1.0, {})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def out(tmp_path: Path) -> Path:
    check_folder(tmp_path / "out")
    return tmp_path / "out"


def test_copies_keep_names_and_times_and_replace_nothing(photos: Path, out: Path) -> None:
    os.utime(photos / "1.jpg", (1e9, 1e9))
    (out / "0.jpg").write_text("mine")
    found = [hit(photos / "0.jpg"), hit(photos / "1.jpg")]
    for before in (0, 2):  # what was copied is not copied again
        copies = copy_hits(found, read_location, out)
        assert copies.made == {f"{photos}/0.jpg": f"{out}/0 (2).jpg", f"{photos}/1.jpg": f"{out}/1.jpg"}
        assert (copies.skipped, copies.before) == ([], before)
        assert names(out) == ["0 (2).jpg", "0.jpg", "1.jpg"]
    assert (out / "0.jpg").read_text() == "mine"
    for name, copy in (("0.jpg", "0 (2).jpg"), ("1.jpg", "1.jpg")):
        assert (out / copy).read_bytes() == (photos / name).read_bytes()
    assert (out / "1.jpg").stat().st_mtime == 1e9


def test_what_is_no_photo_is_not_copied(photos: Path, tmp_path: Path, out: Path) -> None:
    (tmp_path / "secret.jpg").write_text("a key")
    found = [hit(photos / "0.jpg"), hit(tmp_path / "secret.jpg"), hit(photos / "gone.jpg")]
    copies = copy_hits(found, read_location, out)
    assert copies.made == {f"{photos}/0.jpg": f"{out}/0.jpg"}
    assert [Path(one.id).name for one in copies.skipped] == ["secret.jpg", "gone.jpg"]
    assert names(out) == ["0.jpg"]


def test_what_stands_at_a_name_stays(photos: Path, out: Path) -> None:
    """A folder, a link to nothing, and a link to the photo itself."""
    (out / "0.jpg").mkdir()
    (out / "0 (2).jpg").symlink_to("nowhere")
    (out / "1.jpg").symlink_to(photos / "1.jpg")
    copies = copy_hits([hit(photos / "0.jpg"), hit(photos / "1.jpg")], read_location, out)
    assert copies.made[f"{photos}/0.jpg"] == f"{out}/0 (3).jpg"
    assert (copies.made[f"{photos}/1.jpg"], copies.before) == (f"{out}/1.jpg", 1)
    assert names(out) == ["0 (2).jpg", "0 (3).jpg", "0.jpg", "1.jpg"]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "no" / "folder"):
        with pytest.raises(DataError, match="cannot write copies into"):
            check_folder(folder)
    with pytest.raises(DataError, match="has no name"):
        check_folder("")


def no_links(self: Path, other: Path) -> None:
    raise OSError(errno.EPERM, "Operation not permitted")  # as FAT says it


def test_a_file_system_without_links(photos: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "hardlink_to", no_links)
    for before in (0, 1):
        assert copy_hits([hit(photos / "0.jpg")], read_location, out).before == before
    assert names(out) == ["0.jpg"]


@pytest.mark.parametrize("call", ["write_bytes", "hardlink_to", "replace"])
def test_what_cannot_be_written_leaves_no_half(
    photos: Path, out: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    whole: Callable[..., object] = getattr(Path, call)

    def interrupted(self: Path, *given: object) -> object:
        if self.parent == out:
            if call == "write_bytes":
                whole(self, b"half of it")
            raise KeyboardInterrupt
        return whole(self, *given)

    with monkeypatch.context() as patched:
        if call == "replace":
            patched.setattr(Path, "hardlink_to", no_links)
        patched.setattr(Path, call, interrupted)
        with pytest.raises(KeyboardInterrupt):
            copy_hits([hit(photos / "0.jpg")], read_location, out)
    assert names(out) == []
