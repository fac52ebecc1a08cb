"""Downloads: their checksums, as md5sum and sha256sum write them, and sentences for what is wrong."""

from __future__ import annotations

import hashlib
import os
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lexlip.cli.exit_codes import UserError, interruptible
from lexlip.errors import DataError, LexLIPError

DAMAGE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError)

_LINE = re.compile(r"\\?([0-9a-fA-F]+) [ *](.+)")
_ALGORITHMS = {32: "md5", 40: "sha1", 64: "sha256", 128: "sha512"}  # by hexadecimal digits
_BAR: dict[str, Any] = {"unit": "B", "unit_scale": True, "disable": None, "delay": 2, "leave": False}


def checksum(path: Path, algorithm: str = "sha256") -> str:
    """Return the checksum of a file in hexadecimal, with a progress bar if it takes more than two seconds.

    Raises:
        OSError: the file cannot be read.
    """
    hasher = hashlib.new(algorithm, usedforsecurity=False)
    size = path.stat().st_size
    with path.open("rb") as file, tqdm(total=size, desc=f"checking {path.name}", **_BAR) as bar:
        while block := file.read(1 << 22):
            hasher.update(block)
            bar.update(len(block))
    return hasher.hexdigest()


def read_checksums(path: Path) -> dict[str, str]:
    """Return the checksums in a file, by file name without folders; DataError: it is not such a file."""
    sums = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise DataError(f"the checksums {path} cannot be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        found = _LINE.fullmatch(line)
        if found is not None and len(found[1]) in _ALGORITHMS:
            sums[found[2].rpartition("/")[2]] = found[1].lower()
        elif line.strip() and not line.startswith("#"):
            raise DataError(f"{path} line {number} is not of the form 'SUM  FILE' of md5sum or sha256sum")
    return sums


def verify_checksums(files: Iterable[Path], path: Path) -> None:
    """Compare files with the checksums in the file `path`; DataError: a checksum differs, or is missing."""
    sums = read_checksums(path)
    for file in files:
        expected = sums.get(file.name)
        if expected is None:
            raise DataError(f"{path} has no sum of {file.name}; add it, or leave --checksums out")
        algorithm = _ALGORITHMS[len(expected)]
        try:
            found = checksum(file, algorithm)
        except OSError as error:
            raise DataError(f"{file} cannot be read: {error.strerror or error}") from error
        if found != expected:
            raise DataError(
                f"{file} is damaged: its {algorithm} sum is {found}, {path} says {expected};"
                " download it again"
            )


def write_checksums(path: Path, sums: Mapping[str, str]) -> None:
    """Write a file that `sha256sum -c` checks; it replaces an older one atomically.

    Raises:
        OSError: it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text("".join(f"{sums[name]}  {name}\n" for name in sorted(sums)), encoding="utf-8")
    temporary.replace(path)


@contextmanager
def reading(path: Path, wrong: str) -> Iterator[None]:
    """Say in a sentence that a download is damaged, or `wrong`: not what it should be."""
    try:
        yield
    except (OSError, *DAMAGE) as error:
        raise DataError(f"{path} cannot be read: {error}; download it again") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} {wrong}: {error!r}") from error


@contextmanager
def preparing(output: Path, way_on: str) -> Iterator[None]:
    """End with a sentence on what a user can fix, and on Ctrl-C with one that says how to go on."""
    try:
        with interruptible(way_on):
            yield
    except LexLIPError as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"{error.filename or output}: {error.strerror or error}") from error
