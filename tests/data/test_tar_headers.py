"""Against tarfile, on tars of every format that it writes."""

from __future__ import annotations

import io
import random
import tarfile
from pathlib import Path

import pytest

from lexlip.data.tar_headers import Member, members

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
NAMES = [
    "a.jpg",
    "./b.txt",
    "ü.jpg",
    "n" * 99,
    "n" * 100,
    "folder/" + "n" * 120,
    f"{'d' * 90}/{'e' * 90}.jpg",
]


def listed(path: Path) -> list[Member]:
    with path.open("rb") as file:
        return [member for member in members(file) if not member.link]


def by_tarfile(path: Path) -> list[Member]:
    with tarfile.open(path, "r:") as tar:
        return [Member(info.name, info.offset_data, info.size) for info in tar if info.isreg()]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("mtime", [0, 1700000000, 1700000000.25])
def test_the_same_members_as_tarfile(tmp_path: Path, format: str, mtime: float) -> None:
    numbers = random.Random(0)
    names = [name for name in NAMES if format != "ustar" or len(name.rpartition("/")[2]) < 98]
    with tarfile.open(tmp_path / "a.tar", "w", format=FORMATS[format]) as tar:
        for name in names:
            for kind in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE):
                info = tarfile.TarInfo(f"{name}{len(tar.getmembers())}")
                info.type, info.mtime, info.linkname = kind, mtime, "a.jpg"
                if info.isreg():
                    info.size = numbers.choice([0, 1, 511, 512, 513, 2000])
                tar.addfile(info, io.BytesIO(numbers.randbytes(info.size)))
    expected = by_tarfile(tmp_path / "a.tar")
    assert len(expected) == 2 * len(names)
    assert listed(tmp_path / "a.tar") == expected


@pytest.mark.parametrize(
    "headers", [{"comment": "x"}, {"path": "other.jpg"}, {"mtime": "1.5", "path": "x.jpg"}]
)
@pytest.mark.parametrize("scope", ["pax_headers of the tar", "pax_headers of the member"])
def test_pax_headers(tmp_path: Path, headers: dict[str, str], scope: str) -> None:
    of_the_tar = headers if scope.endswith("tar") and "path" not in headers else {}
    with tarfile.open(tmp_path / "a.tar", "w", pax_headers=of_the_tar) as tar:
        for name in ("a.jpg", "b.jpg"):
            info = tarfile.TarInfo(name)
            info.size = 700
            info.pax_headers = {} if of_the_tar else headers
            tar.addfile(info, io.BytesIO(bytes(700)))
    assert listed(tmp_path / "a.tar") == by_tarfile(tmp_path / "a.tar")


def test_numbers_that_are_not_octal(tmp_path: Path) -> None:
    info = tarfile.TarInfo("a.jpg")
    info.size = 600
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    for size in (b"\x80" + (600).to_bytes(11, "big"), b"1130        ", b" 0001130 \0\0\0"):
        header[124:136] = size
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
        (tmp_path / "a.tar").write_bytes(header + bytes(1024) + bytes(1024))
        assert listed(tmp_path / "a.tar") == by_tarfile(tmp_path / "a.tar") == [Member("a.jpg", 512, 600)]


def test_a_size_below_zero_ends_the_listing(tmp_path: Path) -> None:
    header = bytearray(tarfile.TarInfo("a.jpg").tobuf(tarfile.GNU_FORMAT))
    header[124:136] = b"\xff" * 10 + (-1024).to_bytes(2, "big", signed=True)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    (tmp_path / "a.tar").write_bytes(header + bytes(2048))
    with pytest.raises(tarfile.TarError):
        listed(tmp_path / "a.tar")


def test_a_changed_bit_of_a_header_is_noticed(tmp_path: Path) -> None:
    info = tarfile.TarInfo("a.jpg")
    header = info.tobuf(tarfile.USTAR_FORMAT)
    for place in range(0, 512, 7):
        if 148 <= place < 156:  # the checksum itself may be written in several ways
            continue
        changed = bytearray(header)
        changed[place] ^= 4
        (tmp_path / "a.tar").write_bytes(header + changed + bytes(1024))
        with (tmp_path / "a.tar").open("rb") as file:
            found = members(file)
            assert next(found).name == "a.jpg"
            with pytest.raises(tarfile.ReadError, match="damaged at byte 512"):
                next(found)
