from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from downloads import checksum, verify_checksums, write_checksums
from lexlip.errors import DataError


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    for name in ("a b.zip", "c.json"):
        (tmp_path / name).write_bytes(name.encode() * 1000)
    return [tmp_path / "a b.zip", tmp_path / "c.json"]


def sums_by(program: str, files: list[Path], *options: str) -> Path:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    folder = files[0].parent
    done = subprocess.run(
        [program, *options, *(file.name for file in files)], cwd=folder, capture_output=True, check=True
    )
    (folder / "sums").write_bytes(b"# official\n\n" + done.stdout)
    return folder / "sums"


@pytest.mark.parametrize("program", ["md5sum", "sha1sum", "sha256sum", "sha512sum"])
@pytest.mark.parametrize("options", [(), ("--binary",)])
def test_sums_that_programs_write(files: list[Path], program: str, options: tuple[str, ...]) -> None:
    sums = sums_by(program, files, *options)
    verify_checksums(files, sums)
    files[1].write_bytes(files[1].read_bytes()[:-1] + b"?")
    with pytest.raises(DataError, match=r"c\.json is damaged: its \w+ sum is .* says .*; download it again$"):
        verify_checksums(files, sums)


def test_sums_for_sha256sum(files: list[Path]) -> None:
    folder = files[0].parent
    write_checksums(folder / "SHA256SUMS", {file.name: checksum(file) for file in reversed(files)})
    assert (folder / "SHA256SUMS").read_bytes() == sums_by("sha256sum", files).read_bytes()[
        len("# official\n\n") :
    ]
    subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=folder, check=True, capture_output=True
    )


def test_what_cannot_be_verified(files: list[Path], tmp_path: Path) -> None:
    sums = tmp_path / "sums"
    sums.write_text(f"{'0' * 32}  c.json\n")
    with pytest.raises(DataError, match=r"sums has no sum of a b\.zip; add it, or leave --checksums out$"):
        verify_checksums(files, sums)
    for line in ("c.json", f"{'0' * 31}  c.json", f"{'0' * 32} c.json"):
        sums.write_text(f"# fine\n{line}\n")
        with pytest.raises(DataError, match="sums line 2 is not of the form 'SUM  FILE'"):
            verify_checksums(files, sums)
    with pytest.raises(DataError, match="cannot be read"):
        verify_checksums(files, tmp_path / "none")
    sums.write_text(f"{'0' * 32}  none.zip\n")
    with pytest.raises(DataError, match=r"none\.zip cannot be read: No such file"):
        verify_checksums([tmp_path / "none.zip"], sums)
