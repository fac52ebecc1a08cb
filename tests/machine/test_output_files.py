import os
from pathlib import Path

import pytest

from lexlip.errors import DataError
from lexlip.machine.output_files import check_output, write_output


def test_a_file_is_written_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.html"
    check_output(file)
    assert not list(tmp_path.iterdir())
    write_output(file, b"one")
    write_output(str(file), b"two")
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]

    def full(self: Path, data: bytes) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(DataError, match=r"^cannot write the page .*a\.html: No space left on device$"):
        write_output(file, b"three", "the page ")
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]
    assert file.read_bytes() == b"two"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (".", "Is a directory"),
        ("none/a", "No such file or directory"),
        ("file/a", "Not a directory"),
        ("x" * 300, "File name too long"),
        ("loop/a", "Too many levels of symbolic links"),
        ("/proc/a", "No such file or directory"),
    ],
)
def test_what_cannot_be_written(name: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("loop").symlink_to("loop")
    for write in (check_output, lambda path: write_output(path, b"1")):
        with pytest.raises(DataError, match=f"^cannot write {name}: {why}$"):
            write(name)
    longest = "x" * os.pathconf(".", "PC_NAME_MAX")
    write_output(longest, b"1")
    assert Path(longest).read_bytes() == b"1"
