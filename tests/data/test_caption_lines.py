import gzip
from pathlib import Path

import pytest

from lexlip.data import caption_lines
from lexlip.data.caption_lines import read_caption_lines, read_captions_alone
from lexlip.errors import DataError

LINES = "\ufefftwo dogs\r\n\n  a café \n\t\na bike"


def test_a_caption_is_a_line(tmp_path: Path) -> None:
    (tmp_path / "captions.txt").write_bytes(LINES.encode())
    (tmp_path / "captions.txt.gz").write_bytes(gzip.compress(LINES.encode()))
    for name in ("captions.txt", "captions.txt.gz"):
        assert read_caption_lines(tmp_path / name) == ["two dogs", "a café", "a bike"]
    (tmp_path / "captions.txt").write_bytes(b"")
    assert read_caption_lines(tmp_path / "captions.txt") == []


def test_captions_of_a_table_or_of_lines(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("9\t0\ttwo  dogs\tfrom here\n9\t1\ta bike\tfrom there\n")
    (tmp_path / "a.csv").write_text("image,caption\nb.jpg,a café\n")
    (tmp_path / "a.txt").write_text("two dogs\nand, a cat\n")
    assert read_captions_alone(tmp_path / "a.tsv") == ["two dogs", "a bike"]
    assert read_captions_alone(tmp_path / "a.csv") == ["a café"]
    assert read_captions_alone(str(tmp_path / "a.txt")) == ["two dogs", "and, a cat"]


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
