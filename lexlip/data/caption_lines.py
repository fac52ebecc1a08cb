"""Captions without photos: a text file with one in each line, or a table."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path

from lexlip.data.caption_table import read_entries
from lexlip.data.files import LARGEST_TABLE, read_file
from lexlip.data.images import UnreadableImage
from lexlip.data.source import caption_lines, clean_captions
from lexlip.errors import DataError


def read_captions_alone(path: str | Path) -> list[str]:
    """Return the captions of a table (.tsv, .csv), whatever its photos, or of a file with one a line.

    Raises:
        DataError: see `read_caption_lines` and `lexlip.data.caption_table.read_entries`.
    """
    if Path(path).suffix not in (".tsv", ".csv"):
        return read_caption_lines(path)
    return [
        text for entry in read_entries(Path(path), str(path), []) for text in clean_captions(entry.captions)
    ]


def read_caption_lines(path: str | Path) -> list[str]:
    """Return the captions of a text file, one a line, without empty lines; .gz is unpacked.

    Raises:
        DataError: it cannot be read or decoded, or is too large.
    """
    try:
        data = read_file(path, most=LARGEST_TABLE)
        if str(path).endswith(".gz"):
            data = gzip.GzipFile(fileobj=io.BytesIO(data)).read(LARGEST_TABLE + 1)
        if len(data) > LARGEST_TABLE:
            raise DataError(f"{path} has more than {LARGEST_TABLE:,} bytes: give fewer captions")
    except UnreadableImage as error:
        raise DataError(f"{path} cannot be read: {error.reason}") from error
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be unpacked: {error}") from error
    try:
        return list(caption_lines(data))
    except ValueError as error:
        raise DataError(f"{path} is {error}") from None
