"""Finds where the files of a tar are, without reading them."""

from __future__ import annotations

import os
import posixpath
import re
import tarfile
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

BLOCK = tarfile.BLOCKSIZE
_TIMES = re.compile(rb"(?:\d+ [acm]time=-?[\d.]+\n)+")  # pax records of when a file was written
_MODULUS = 65521  # of Adler-32


LONGEST_NAME = 4096  # bytes of a name, as of a path on Linux
LONGEST_HEADER = 2**20  # bytes of a name or of other records before a file


class Member(NamedTuple):
    """A file in a tar: `size` bytes from `offset` on; or a link to the file of the name `link`."""

    name: str
    offset: int
    size: int
    link: str = ""


class Contents(NamedTuple):
    """What is in a tar: files by name, what is skipped and why, and what is wrong after these, or "".

    Names are without "./" before them; of two with the same name the later one counts. A link is the file
    that it leads to.
    """

    files: dict[str, Member]
    skipped: list[tuple[str, str]]
    damage: str


def contents(file: BinaryIO) -> Contents:
    """Return what is in a tar; OSError: it cannot be read."""
    found: dict[str, Member] = {}
    links: dict[str, str] = {}
    skipped, damage = [], ""
    try:
        for member in members(file):
            name = member.name.removeprefix("./")
            found.pop(name, None) if member.link else links.pop(name, None)
            if len(name.encode(errors="surrogateescape")) > LONGEST_NAME:
                skipped.append((_shortened(name), f"its name has more than {LONGEST_NAME:,} bytes"))
            elif member.link:
                links[name] = member.link
            elif member.size < 0:
                skipped.append((name, "a sparse file: pack it without --sparse"))
            else:
                found[name] = member._replace(name=name)
    except (tarfile.TarError, ValueError, RecursionError) as error:
        damage = "damaged: too many headers" if isinstance(error, RecursionError) else str(error)
    resolved = {name: found.get(_end(name, links)) for name in links}
    skipped += [(name, "a link to nothing in the tar") for name, file in resolved.items() if file is None]
    files = {name: file._replace(name=name) for name, file in resolved.items() if file is not None}
    return Contents(found | files, skipped, damage)


def _shortened(name: str) -> str:
    return name if len(name) < 100 else f"{name[:40]}…{name[-10:]}"


def _end(name: str, links: dict[str, str]) -> str:
    """Return where a chain of links ends; a link to itself ends nowhere."""
    for _ in range(len(links)):
        if name not in links:
            break
        name = links[name]
    return name


def members(file: BinaryIO) -> Iterator[Member]:
    """Yield the complete regular files and the links of an uncompressed tar, in order.

    A sparse file, which is not in one piece, has size -1. TarError: the tar is damaged, after the last intact
    file; or it is no tar. OSError: it cannot be read.
    """
    end = os.fstat(file.fileno()).st_size
    with tarfile.open(fileobj=_Headers(file), mode="r:", encoding="utf-8") as tar:  # type: ignore[call-overload]
        offset = 0
        while True:
            member = _plain(file, offset)
            if member is not None:
                offset = member.offset + -(-member.size // BLOCK) * BLOCK
                regular = True
            else:
                info = _any(tar, offset)
                if info is None:
                    return
                if info.size < 0 or tar.offset <= offset:  # impossible numbers
                    raise tarfile.ReadError(f"damaged at byte {offset:,}")
                member = Member(info.name, info.offset_data, info.size)
                offset = tar.offset
                regular = info.isreg() or info.islnk() or info.issym()
                if info.islnk() or info.issym():
                    member = Member(info.name, 0, 0, _target(info))
                elif info.issparse():
                    member = Member(info.name, 0, -1)
            if max(offset if member.size < 0 else 0, member.offset + member.size) > end:
                raise tarfile.ReadError(f"truncated in {_shortened(member.name)}")
            if regular:
                yield member


class _Headers:
    """A tar whose headers are read; none of them may be so long that it fills the memory.

    A header is all that is read from where `seek` went; new versions of tarfile read it in pieces.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._left = LONGEST_HEADER

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def seek(self, offset: int) -> int:
        self._left = LONGEST_HEADER
        return self._file.seek(offset)

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= self._left:
            raise tarfile.ReadError(f"damaged: a header of more than {LONGEST_HEADER:,} bytes")
        self._left -= size
        return self._file.read(size)


def _target(info: tarfile.TarInfo) -> str:
    """Return the name of the member that a link leads to."""
    folder = posixpath.dirname(info.name) if info.issym() else ""
    return posixpath.normpath(posixpath.join(folder, info.linkname))


def _plain(file: BinaryIO, offset: int) -> Member | None:
    """Return the file whose header is at `offset`; None if the header is of a special kind.

    tarfile, which knows all kinds, takes many times as long, and a tar of web photos has thirty thousand.
    """
    file.seek(offset)
    header = file.read(BLOCK)
    if header[156:157] == b"x":  # a pax header before the real one
        records = file.read(2 * BLOCK)
        size = _octal(header[124:136])
        if not _checks(header) or size > BLOCK or not _TIMES.fullmatch(records[:size]):
            return None
        header = records[BLOCK:]
        offset += 2 * BLOCK
    long_name = header[345:346] != b"\0"
    if header[156:157] != b"0" or long_name or len(header) < BLOCK or not _checks(header):
        return None
    size = _octal(header[124:136])
    if size < 0:
        return None
    name = header[:100].partition(b"\0")[0].decode("utf-8", "surrogateescape")
    return Member(name, offset + BLOCK, size)


def _octal(field: bytes) -> int:
    """Return the number in a field of a header; -1 if it is not octal."""
    digits = field.rstrip(b"\0 ")
    return int(digits, 8) if digits.isdigit() and not digits.strip(b"01234567") else -1


def _checks(header: bytes) -> bool:
    """Return whether a header's checksum is right: the sum of its bytes, with spaces for the checksum.

    The lower half of Adler-32 is one more than that sum, modulo _MODULUS.
    """
    adler = zlib.adler32(header[156:], zlib.adler32(b" " * 8, zlib.adler32(header[:148])))
    return adler & 0xFFFF == (_octal(header[148:156]) + 1) % _MODULUS


def _any(tar: tarfile.TarFile, offset: int) -> tarfile.TarInfo | None:
    """Return the member whose header is at `offset`, None at the end mark; TarError: it is damaged there."""
    assert tar.fileobj is not None
    tar.fileobj.seek(offset)
    try:
        return tarfile.TarInfo.fromtarfile(tar)
    except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
        return None
    except (tarfile.EmptyHeaderError, tarfile.TruncatedHeaderError) as error:  # type: ignore[attr-defined]
        raise tarfile.ReadError("truncated: no end mark") from error
    except tarfile.HeaderError as error:
        raise tarfile.ReadError(f"damaged at byte {offset:,}") from error
