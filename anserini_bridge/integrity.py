"""Finds damaged files of an index, by checksums: Lucene's own, and those that `index.json` keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from anserini_bridge.errors import CorruptIndex, IndexVersion
from anserini_bridge.jvm import java_class, java_errors
from anserini_bridge.metadata import VOCABULARY_FILE, IndexHeader, IndexMetadata, read_words
from anserini_bridge.storage import checksum

LUCENE_FOLDER = "lucene"  # in the data folder
_LOCK = "write.lock"  # Lucene's, which is empty


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
        return list(_check(folder, _files(folder, commit), done))
    except (CorruptIndex, IndexVersion) as error:
        names = [path.name for path in sorted(folder.glob("*")) if path.name != _LOCK]
        found = list(_check(folder, dict.fromkeys(names, ""), done))
        if not found and isinstance(error, IndexVersion):
            raise
        return found or [Damaged(folder / commit, "it is missing, or a file that it names is")]


def _files(folder: Path, commit: str) -> dict[str, str]:
    """Return the files of a commit by name, each with its segment."""
    with java_errors(folder):
        lines = str(_java().files(str(folder.absolute()).encode(), commit.encode())).split("\n")
    found = {lines[0]: ""}
    for line in lines[1:]:
        segment, *names = line.split(" ")
        found.update(dict.fromkeys(names, segment))
    return found


def _check(folder: Path, files: Mapping[str, str], done: Callable[[int], object]) -> Iterator[Damaged]:
    for name, segment in files.items():
        with java_errors(folder):
            reason = str(_java().check(str(folder.absolute()).encode(), name.encode()))
        if reason:
            yield Damaged(folder / name, reason, segment)
        else:
            done((folder / name).stat().st_size)


def _java() -> Any:
    return java_class("impact.Integrity")
