"""Finds damaged files of an index, by checksums: Lucene's own, and those that `index.json` keeps."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from anserini_bridge.errors import CorruptIndex, IndexVersion
from anserini_bridge.given_files import check_file
from anserini_bridge.jvm import java_class, java_errors
from anserini_bridge.metadata import VOCABULARY_FILE, IndexHeader, IndexMetadata, read_words
from anserini_bridge.storage import checksum, crc32

LUCENE_FOLDER = "lucene"  # in the data folder
_LOCK = "write.lock"  # Lucene's, which is empty
_SEGMENT = re.compile(r"(?!.*\.si$)_[0-9a-z]+")  # whose file this is; without its .si, no commit can be read
_FOOTER = struct.Struct(">Iiq")  # FOOTER_MAGIC of Lucene's CodecUtil, 0, and the CRC-32 of all before the sum
_FOOTER_MAGIC = 0xC02893E8


class Damaged(NamedTuple):
    """A file of an index that is not as it was written."""

    file: Path
    reason: str
    segment: str = ""  # the Lucene segment whose documents cannot be read without it, if it is of one

    def __str__(self) -> str:
        return f"{self.file} is damaged: {self.reason}"


def find_damage(
    path: Path,
    header: IndexHeader,
    lucene: Mapping[str, str],
    done: Callable[[int], object] = lambda size: None,
) -> list[Damaged]:
    """Read every file of an index whose checksum is known, and return those that are damaged.

    Args:
        path: the index's folder.
        header: what `index.json` says.
        lucene: Lucene's folders in the data folder by name, each with the commit that is searched; "" is the
            newest.
        done: is told the bytes of each file that was read.

    Raises:
        IndexVersion: Lucene cannot read such an index here.
        NoJava, NoJar, JVMConflict: see `start_jvm`.
    """
    folder = path / header.directory
    found = [*_damaged_words(path, header), *_damaged_files(folder, header, done)]
    for name, commit in lucene.items():
        if isinstance(header, IndexMetadata) and name == LUCENE_FOLDER and header.lucene_files:
            found += _check(folder / name, header.lucene_files, done)
        elif not any(file.startswith(f"{name}/") for file in header.files):
            found += damaged_in_lucene(folder / name, commit, done)
    return found


def _damaged_words(path: Path, header: IndexHeader) -> Iterator[Damaged]:
    if isinstance(header, IndexMetadata):
        try:
            read_words(path, header)
        except CorruptIndex:
            file = path / header.directory / VOCABULARY_FILE
            yield Damaged(file, "it does not hold the words with which the index was built")


def _damaged_files(folder: Path, header: IndexHeader, done: Callable[[int], object]) -> Iterator[Damaged]:
    for name, wanted in header.files.items():
        file = folder / name
        try:
            size, found = file.stat().st_size, checksum(file)
        except OSError as error:
            yield Damaged(file, error.strerror or str(error))
            continue
        done(size)
        if found != wanted:
            yield Damaged(file, f"its checksum is {found}, not {wanted}")


def damaged_in_lucene(
    folder: Path, commit: str = "", done: Callable[[int], object] = lambda size: None
) -> list[Damaged]:
    """Check the files of a commit of Lucene's; if it cannot be read, all of its folder, to name the culprit.

    For `commit` and `done`, and what is raised, see `find_damage`.
    """
    try:
        return list(_check(folder, lucene_files(folder, commit), done))
    except (CorruptIndex, IndexVersion) as error:
        found = [file._replace(segment="") for file in _check(folder, _all_files(folder), done)]
        if not found and isinstance(error, IndexVersion):
            raise
        return found or [Damaged(folder / commit, "it is missing, or a file that it names is")]


def lucene_files(folder: Path, commit: str) -> list[str]:
    """Return the names of the files of a commit; "" is the newest one."""
    with java_errors(folder):
        lines = str(_java().files(str(folder.absolute()).encode(), commit.encode()))
    return lines.split("\n")


def files_below(folder: Path) -> list[str]:
    """Return the names of the files of a folder of Lucene's, each with that of the folder before it."""
    return [f"{folder.name}/{name}" for name in _all_files(folder)]


def _all_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*") if path.name != _LOCK)


def _check(folder: Path, names: Iterable[str], done: Callable[[int], object]) -> Iterator[Damaged]:
    for name in names:
        file = folder / name
        if reason := _reason(file):
            segment = _SEGMENT.match(name)
            yield Damaged(file, reason, segment[0] if segment else "")
        else:
            done(file.stat().st_size)


def _reason(file: Path) -> str:
    """Return why a file is not as Lucene wrote it, by the checksum at its end; "" if it is."""
    try:
        check_file(file)
        with file.open("rb") as content:
            size = content.seek(0, os.SEEK_END)
            content.seek(max(0, size - _FOOTER.size))
            footer = content.read()
            if len(footer) < _FOOTER.size or _FOOTER.unpack(footer)[:2] != (_FOOTER_MAGIC, 0):
                return "its end is missing"
            content.seek(0)
            found, wanted = crc32(content, size - 8), _FOOTER.unpack(footer)[2]
    except FileNotFoundError:
        return "it is missing"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return "" if found == wanted else f"its checksum is {found:08x}, not {wanted:08x}"


def _java() -> Any:
    return java_class("impact.Integrity")
