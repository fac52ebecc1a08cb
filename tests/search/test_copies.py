import os
import tarfile
from pathlib import Path

import pytest

from lexlip.errors import DataError
from lexlip.retrieval.answer import Hit
from lexlip.search.copies import check_folder, copy_hits


def hit(path: Path) -> Hit:
    return Hit(1, path.name, str(path), 1.0, {})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_copies_keep_names_and_times_and_replace_nothing(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    check_folder(out)
    os.utime(photos / "1.jpg", (1e9, 1e9))
    (out / "0.jpg").write_text("mine")
    found = [hit(photos / "0.jpg"), hit(photos / "1.jpg")]
    for _ in range(2):  # what was copied is not copied again
        copies, skipped = copy_hits(found, out)
        assert copies == {"0.jpg": f"{out}/0 (2).jpg", "1.jpg": f"{out}/1.jpg"}
        assert not skipped
        assert names(out) == ["0 (2).jpg", "0.jpg", "1.jpg"]
    assert (out / "0.jpg").read_text() == "mine"
    for name, copy in (("0.jpg", "0 (2).jpg"), ("1.jpg", "1.jpg")):
        assert (out / copy).read_bytes() == (photos / name).read_bytes()
    assert (out / "1.jpg").stat().st_mtime == 1e9


def test_photos_in_tars_and_what_is_no_photo(photos: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "some.tar", "w") as tar:
        tar.add(photos / "0.jpg", "a/0.jpg")
    (tmp_path / "secret.jpg").write_text("a key")
    inside = tmp_path / "some.tar" / "a" / "0.jpg"
    found = [hit(inside), hit(tmp_path / "secret.jpg"), hit(photos / "gone.jpg")]
    (tmp_path / "out").mkdir()
    copies, skipped = copy_hits(found, tmp_path / "out")
    assert copies == {"0.jpg": f"{tmp_path}/out/0.jpg"}
    assert [one.id for one in skipped] == ["secret.jpg", "gone.jpg"]
    assert (tmp_path / "out" / "0.jpg").read_bytes() == (photos / "0.jpg").read_bytes()
    assert names(tmp_path / "out") == ["0.jpg"]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "no" / "folder"):
        with pytest.raises(DataError, match="cannot write copies into"):
            check_folder(folder)


def test_what_cannot_be_written_leaves_no_half(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    whole = Path.open

    def full(self: Path, mode: str = "r", *how: object) -> object:
        file = whole(self, mode, *how)
        if self.parent.name == "out" and mode == "xb":
            monkeypatch.setattr(file, "write", lambda _: (_ for _ in ()).throw(OSError(28, "No space left")))
        return file

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", full)
        with pytest.raises(DataError, match="No space left"):
            copy_hits([hit(photos / "0.jpg")], tmp_path / "out")
    assert names(tmp_path / "out") == []
