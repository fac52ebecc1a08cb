"""Where the files of a tar lie, without reading them."""

from __future__ import annotations

import os
import re
import tarfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

BLOCK = tarfile.BLOCKSIZE
_TIMES = re.compile(rb"(?:\d+ [acm]time=-?[\d.]+\n)+")  # pax records of when a file was written
_MODULUS = 65521  # of Adler-32


class Member(NamedTuple):
    """A file in a tar: its bytes are `size` bytes from `offset` on."""

    name: str
    offset: int
    size: int


def members(file: BinaryIO) -> Iterator[Member]:
    """The regular files of an uncompressed tar whose bytes are all there, in order.

    Raises:
        tarfile.TarError: damage, after the last sound file; no tar at all.
        OSError: the tar cannot be read.
    """
    end = os.fstat(file.fileno()).st_size
    with tarfile.open(fileobj=file, mode="r:", encoding="utf-8") as tar:
        offset = 0
        while True:
            member = _plain(file, offset)
            if member is not None:
                offset = member.offset + -(-member.size // BLOCK) * BLOCK
                regular = True
            else:
                info = _any(tar, file, offset)
                if info is None:
                    return
                if info.size < 0 or tar.offset <= offset:  # a number that no tar has
                    raise tarfile.ReadError(f"damaged at byte {offset:,}")
                member = Member(info.name, info.offset_data, info.size)
                offset = tar.offset
                regular = info.isreg() and not info.issparse()
            if member.offset + member.size > end:
                raise tarfile.ReadError(f"truncated in {member.name}")
            if regular:
                yield member


def _plain(file: BinaryIO, offset: int) -> Member | None:
    """The file whose header lies at `offset`, if nothing is special about it: tarfile, which knows all
    kinds of headers, takes many times as long, and a tar of web photos has thirty thousand of them."""
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
    """The number in a field of a header; -1 if it is written in another way."""
    digits = field.rstrip(b"\0 ")
    return int(digits, 8) if digits.isdigit() and not digits.strip(b"01234567") else -1


def _checks(header: bytes) -> bool:
    """Whether a header's checksum fits: the sum of its bytes, with spaces for the checksum itself. The lower
    half of Adler-32 is one more than that sum, by its modulus."""
    adler = zlib.adler32(header[156:], zlib.adler32(b" " * 8, zlib.adler32(header[:148])))
    return adler & 0xFFFF == (_octal(header[148:156]) + 1) % _MODULUS


def _any(tar: tarfile.TarFile, file: BinaryIO, offset: int) -> tarfile.TarInfo | None:
    """The member whose header lies at `offset`; None at the end mark. Raises TarError at damage."""
    file.seek(offset)
    try:
        return tarfile.TarInfo.fromtarfile(tar)
    except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
        return None
    except (tarfile.EmptyHeaderError, tarfile.TruncatedHeaderError) as error:  # type: ignore[attr-defined]
        raise tarfile.ReadError("truncated: no end mark") from error
    except tarfile.HeaderError as error:
        raise tarfile.ReadError(f"damaged at byte {offset:,}") from error
