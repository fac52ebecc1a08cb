"""Finds where the files of a tar are, without reading them."""

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
    """A file in a tar: `size` bytes from `offset` on."""

    name: str
    offset: int
    size: int


def members(file: BinaryIO) -> Iterator[Member]:
    """Yield the complete regular files of an uncompressed tar, in order.

    Raises:
        tarfile.TarError: the tar is damaged, after the last intact file; or it is no tar.
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
                if info.size < 0 or tar.offset <= offset:  # impossible numbers
                    raise tarfile.ReadError(f"damaged at byte {offset:,}")
                member = Member(info.name, info.offset_data, info.size)
                offset = tar.offset
                regular = info.isreg() and not info.issparse()
            if member.offset + member.size > end:
                raise tarfile.ReadError(f"truncated in {member.name}")
            if regular:
                yield member


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


def _any(tar: tarfile.TarFile, file: BinaryIO, offset: int) -> tarfile.TarInfo | None:
    """Return the member whose header is at `offset`; None at the end mark.

    Raises:
        tarfile.TarError: the tar is damaged there.
    """
    file.seek(offset)
    try:
        return tarfile.TarInfo.fromtarfile(tar)
    except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
        return None
    except (tarfile.EmptyHeaderError, tarfile.TruncatedHeaderError) as error:  # type: ignore[attr-defined]
        raise tarfile.ReadError("truncated: no end mark") from error
    except tarfile.HeaderError as error:
        raise tarfile.ReadError(f"damaged at byte {offset:,}") from error
