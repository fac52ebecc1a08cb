import gzip
from pathlib import Path

import pytest

from lexlip.data import caption_lines
from lexlip.data.caption_lines import read_caption_lines
from lexlip.errors import DataError

LINES = "\ufefftwo dogs\r\n\n  a café \n\t\na bike"


def test_a_caption_is_a_line(tmp_path: Path) -> None:
    (tmp_path / "captions.txt").write_bytes(LINES.encode())
    (tmp_path / "captions.txt.gz").write_bytes(gzip.compress(LINES.encode()))
    for name in ("captions.txt", "captions.txt.gz"):
        assert read_caption_lines(tmp_path / name) == ["two dogs", "a café", "a bike"]
    (tmp_path / "captions.txt").write_bytes(b"")
    assert read_caption_lines(tmp_path / "captions.txt") == []


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("latin.txt", b"caf\xe9\n", r"latin\.txt is not UTF-8 at byte 3"),
        ("plain.gz", b"two dogs\n", r"plain\.gz cannot be unpacked"),
        ("short.gz", gzip.compress(b"two dogs", mtime=0)[:-9], r"short\.gz cannot be unpacked"),
        ("long.txt", b"two dogs\n" * 9, "long"),
        (
            "bomb.gz",
            gzip.compress(b"two dogs\n" * 9, mtime=0),
            r"bomb\.gz has more than 60 bytes: give fewer captions",
        ),
    ],
)
def test_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes, message: str
) -> None:
    monkeypatch.setattr(caption_lines, "LARGEST_TABLE", 60)
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=message):
        read_caption_lines(tmp_path / name)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_caption_lines(tmp_path / "nothing.txt")
