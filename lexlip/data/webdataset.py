"""Photos in tar files, as img2dataset and webdataset write them: KEY.jpg, KEY.txt, KEY.json."""

import glob
import json
import os
import re
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from lexlip.data.images import SUFFIXES, UnreadableImage
from lexlip.data.source import Item, Skipped, Source, caption_lines, clean_captions, read_file
from lexlip.errors import DataError


class Member(NamedTuple):
    """Where a file's bytes lie in a tar."""

    shard: int
    offset: int
    size: int


class WebDatasetSource(Source):
    """Photos in tars, listed once by the tars' headers and then read in place; nothing is unpacked.

    Captions are `captions` (a list) or `caption` of KEY.json, else the lines of KEY.txt. The id of a photo
    is `SHARD.tar/KEY.jpg`, relative to the folder that holds all the tars.

    Raises DataError if no photo is in any of them.
    """

    def __init__(self, shards: Sequence[Path], name: str) -> None:
        self.name = name
        self.shards = [str(shard.absolute()) for shard in shards]
        self.root = os.path.commonpath([os.path.dirname(shard) for shard in self.shards])  # noqa: PTH120
        self.items: list[Item] = []
        self.skipped = []
        self.members: list[Member] = []
        for number in range(len(self.shards)):
            self._list(number)
        if not self.items:
            why = f" ({self.skipped[0].id}: {self.skipped[0].reason})" if self.skipped else ""
            raise DataError(f"no photos in the tars of {name}{why}")

    def _list(self, number: int) -> None:
        shard = os.path.relpath(self.shards[number], self.root)
        photos: dict[str, Member] = {}  # by name; of two members with one name the later counts, as in tar
        texts: dict[str, dict[str, Member]] = {}  # by key and suffix
        try:
            with open(self.shards[number], "rb") as file:  # noqa: PTH123
                try:
                    for member in headers(file):
                        name = member.name.removeprefix("./")
                        key, suffix = os.path.splitext(name)  # noqa: PTH122
                        where = Member(number, member.offset_data, member.size)
                        if not member.isreg() or os.path.basename(name).startswith("."):  # noqa: PTH119
                            continue
                        if suffix.lower() in SUFFIXES:
                            photos[name] = where
                        elif suffix in (".txt", ".json"):
                            texts.setdefault(key, {})[suffix] = where
                except (tarfile.TarError, ValueError) as error:
                    self.skipped.append(Skipped(shard, f"{error}; {len(photos)} photos before that are kept"))
                keys = set()
                for name, where in photos.items():
                    key = os.path.splitext(name)[0]  # noqa: PTH122
                    keys.add(key)
                    self.items.append(Item(f"{shard}/{name}", _captions(file, texts.get(key, {}))))
                    self.members.append(where)
                self.skipped += [Skipped(f"{shard}/{key}", "no image") for key in texts if key not in keys]
        except OSError as error:
            self.skipped.append(Skipped(shard, error.strerror or str(error)))

    def read(self, index: int) -> bytes:
        shard, offset, size = self.members[index]
        try:
            return read_file(self.shards[shard], offset, size)
        except UnreadableImage as error:
            raise UnreadableImage(error.reason, self.path(index)) from error

    def path(self, index: int) -> str:
        return f"{self.root}/{self.items[index].id}"


def headers(file: BinaryIO) -> Iterator[tarfile.TarInfo]:
    """The members of a tar whose bytes are all there. Raises TarError at damage, after the last sound one."""
    end = os.fstat(file.fileno()).st_size
    with tarfile.open(fileobj=file, mode="r:") as tar:
        while (member := tar.next()) is not None:
            if member.offset_data + member.size > end:
                raise tarfile.ReadError(f"truncated in {member.name}")
            yield member
            tar.members = []  # type: ignore[attr-defined]  # it would keep them all
        # tarfile stops at a damaged header just as at the end: tell them apart
        file.seek(tar.offset)
        block = file.read(tarfile.BLOCKSIZE)
    if len(block) < tarfile.BLOCKSIZE:
        raise tarfile.ReadError("truncated: no end mark")
    if block.strip(b"\0"):
        raise tarfile.ReadError(f"damaged at byte {tar.offset:,}")


def _captions(file: BinaryIO, texts: dict[str, Member]) -> tuple[str, ...]:
    def content(suffix: str) -> bytes:
        if suffix not in texts:
            return b""
        file.seek(texts[suffix].offset)
        return file.read(texts[suffix].size)

    try:
        fields = json.loads(content(".json") or b"{}")
    except ValueError:
        fields = {}
    if isinstance(fields, dict):
        captions = clean_captions(fields.get("captions")) or clean_captions([fields.get("caption")])
        if captions:
            return captions
    return caption_lines(content(".txt"))


def match_tars(pattern: str) -> list[Path]:
    """The tars that a pattern names, in order. Braces may hold a range or a list: {000..012}, {train,val}.

    Raises DataError if there is none, or if one that braces spell out is missing."""
    paths: dict[Path, None] = {}
    for name in expand_braces(pattern):
        found = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 (a pattern may be absolute)
        if not found and not glob.has_magic(name):
            raise DataError(f"{name} does not exist (named by {pattern})")
        paths.update((Path(path), None) for path in found if path.lower().endswith(".tar"))
    if not paths:
        raise DataError(f"no tar matches {pattern}")
    return list(paths)


def expand_braces(pattern: str) -> Iterator[str]:
    """ "a-{08..10}" -> "a-08", "a-09", "a-10"; "{train,val}.tar" -> "train.tar", "val.tar"."""
    brace = re.search(r"\{([^{}]*)\}", pattern)
    if brace is None:
        yield pattern
        return
    bounds = re.fullmatch(r"(\d+)\.\.(\d+)", brace[1])
    if bounds:
        width = len(bounds[1]) if bounds[1].startswith("0") else 0
        choices = [f"{number:0{width}}" for number in range(int(bounds[1]), int(bounds[2]) + 1)]
    else:
        choices = brace[1].split(",")
    for choice in choices:
        yield from expand_braces(pattern[: brace.start()] + choice + pattern[brace.end() :])
