"""Captions as people write them: how texts are decoded, and tables (TSV, CSV, Flickr's)."""

from __future__ import annotations

import codecs
import csv
import io
import re
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath
from typing import NamedTuple

from lexlip.data.files import LARGEST_TABLE, read_file
from lexlip.data.source import Skipped
from lexlip.errors import DataError, UnreadableImage
from lexlip.words.plain_text import composed, whole

_MARKS = (  # the longer ones first: that of UTF-32 begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "UTF-32-LE"),
    (codecs.BOM_UTF32_BE, "UTF-32-BE"),
    (codecs.BOM_UTF8, "UTF-8"),
    (codecs.BOM_UTF16_LE, "UTF-16-LE"),
    (codecs.BOM_UTF16_BE, "UTF-16-BE"),
)


def decode_text(data: bytes) -> str:
    """Return the text of a file, which is UTF-8 unless a byte-order mark says otherwise.

    ValueError: it is in another encoding, in words such as "not UTF-8 at byte 3".
    """
    mark, encoding = next((known for known in _MARKS if data.startswith(known[0])), (b"", "UTF-8"))
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        raise ValueError(f"not {encoding} at byte {len(mark) + error.start:,}") from None
    if "\0" in text:  # half of each letter in UTF-16 without its mark
        raise ValueError(f"not {encoding}: it has zero bytes")
    return text


def lines_of(text: str) -> list[str]:
    r"""Return the lines of a text, which end at \n, \r\n or \r only, as in a table."""
    return re.split(r"\r\n|\n|\r", text)


def caption_lines(data: bytes) -> tuple[str, ...]:
    """Return the captions in a text file, one per line; ValueError: see `decode_text`."""
    return clean_captions(lines_of(decode_text(data)))


def clean_captions(captions: object) -> tuple[str, ...]:
    """Return the non-empty strings of a list, with single spaces; half a character becomes "?"."""
    if not isinstance(captions, list):
        return ()
    texts = (whole(caption).replace("\0", " ") for caption in captions if isinstance(caption, str))
    return tuple(filter(None, (" ".join(text.split()) for text in texts)))


class Beside:
    """Files beside photos, such as those with captions, found by the photo's name without its suffix.

    The suffix of such a file may be in any case. A name that is composed otherwise than the photo's
    (Unicode's NFC and NFD) is taken if there is no other.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names: dict[str, str] = {}
        exact = {}
        for name in sorted(names):  # of .TXT and .txt the latter counts
            stem, dot, suffix = name.rpartition(".")
            exact[key := f"{stem}{dot}{suffix.lower()}"] = name
            self._names[composed(key)] = name
        self._names.update(exact)

    def find(self, stem: str, suffix: str) -> str | None:
        """Return the file with a suffix, given in lower case, beside the photo whose name begins so."""
        if not self._names:  # as in most folders
            return None
        return self._names.get(stem + suffix) or self._names.get(composed(stem) + suffix)


LONGEST_HEADER = 10_000  # characters
SUFFIXES = (".tsv", ".csv", ".txt")
PHOTO = ("image", "image_name", "image_path", "filename", "file_name", "filepath", "path", "file")
CAPTION = ("caption", "title", "text", "comment", "sentence")
SPLIT = ("split",)


class Entry(NamedTuple):
    """Some captions of a photo, its path below the folder of images, and its split, if it has one."""

    photo: str
    captions: list[str]
    split: str = ""


def read_table(path: Path, name: str, skipped: list[Skipped]) -> Iterator[Entry]:
    """Yield the rows of a table; those that cannot be read or are too short go to `skipped`.

    Without a header line, the first column is the photo and the second the caption, or the third if the
    second is a number: Flickr8k's `1000268201.jpg#0<TAB>A child climbs stairs` and Flickr30k's
    `1000092795.jpg| 0| Two men look at their hands`. A header has names of PHOTO, CAPTION and SPLIT; below
    one, columns may be parted by semicolons, as spreadsheets write them where numbers have commas.
    DataError: the table or its first row cannot be read, or its header lacks a column.
    """
    text = read_text(path, name)
    delimiter = _delimiter(lines_of(text.lstrip()[:LONGEST_HEADER])[0])
    columns: tuple[int, int, int | None] | None = None
    width = 0
    for number, row in _rows(text, delimiter):
        if isinstance(row, csv.Error):
            if columns is None:
                raise DataError(f"{name} line {number} cannot be read: {row}") from row
            skipped.append(Skipped(f"{PurePath(name).name}:{number}", str(row)))
            continue
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if columns is None:
            width = len(cells)
            columns = _header(cells, name)
            if columns:
                continue
            columns = (0, 2 if width > 2 and cells[1].isdigit() else 1, None)
            if delimiter == ",":  # without a header, the caption is the rest of the line
                width = columns[1] + 1
        photo, caption, split = columns
        if len(cells) <= max(photo, caption, split or 0):
            skipped.append(Skipped(f"{PurePath(name).name}:{number}", "a column is missing"))
            continue
        if caption == width - 1:  # commas in an unquoted last column
            cells[caption] = delimiter.join(row[caption:])
        which = split_name(cells[split]) if split is not None else ""
        yield Entry(re.sub(r"(\.\w+)#\d+$", r"\1", cells[photo]), [cells[caption]], which)


def _rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str] | csv.Error]]:
    """Yield the line in which each row begins, and its cells or what is wrong with it.

    After a row that is wrong, reading goes on in the next line: a quote that is not closed costs one row.
    """
    lines = enumerate(io.StringIO(text, newline=""), start=1)
    again: deque[tuple[int, str]] = deque()  # lines that a row took which was none
    taken: list[tuple[int, str]] = []  # by the row that is being read

    def take() -> Iterator[str]:
        while line := again.popleft() if again else next(lines, None):
            taken.append(line)
            yield line[1]

    while True:
        try:
            for row in _parse(take(), delimiter):
                yield taken[0][0], row
                taken.clear()
        except csv.Error as error:
            (number, line), *others = taken
            taken.clear()
            again.extendleft(reversed(others))
            yield number, _alone(line, delimiter, error)
        else:
            return


def _parse(lines: Iterable[str], delimiter: str, strict: bool = True) -> Iterator[list[str]]:
    quoting = csv.QUOTE_MINIMAL if delimiter in ",;" else csv.QUOTE_NONE  # a quote means nothing in TSV
    return csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=strict)  # type: ignore[arg-type]


def _alone(line: str, delimiter: str, error: csv.Error) -> list[str] | csv.Error:
    """Return the cells of a line that is not written by the rules, such as "Stop", says the sign."""
    if delimiter in ",;" and line.count('"') % 2:
        return csv.Error("a quote is not closed")
    try:
        return next(_parse([line], delimiter, strict=False))
    except csv.Error:
        too_long = csv.Error(f"a cell has more than {csv.field_size_limit():,} characters")
        return too_long if len(line) > csv.field_size_limit() else error


def _delimiter(line: str) -> str:
    """Return what is between the columns of a table that begins with a line."""
    names = {name.strip(' "').lower() for name in line.split(";")}
    by_semicolons = not names.isdisjoint(PHOTO) and not names.isdisjoint(CAPTION)
    return ";" if by_semicolons else next((mark for mark in "\t|" if mark in line), ",")


def _header(cells: list[str], name: str) -> tuple[int, int, int | None] | None:
    """Return the columns of photo, caption and split; None if this is no header line."""
    names = [cell.lower() for cell in cells]
    photo, caption, split = (
        next((names.index(known) for known in kind if known in names), None)
        for kind in (PHOTO, CAPTION, SPLIT)
    )
    if photo is None and caption is None:
        return None
    if photo is None or caption is None:
        lacking = "image" if photo is None else "caption"
        raise DataError(f"{name} has no column named {lacking}: it has {', '.join(cells)}")
    return photo, caption, split


def split_name(split: object) -> str:
    """Return the name of a split, given as the file has it: COCO's `restval` is for training too."""
    name = split.strip() if isinstance(split, str) else ""
    return "train" if name == "restval" else name


def read_text(path: str | Path, name: str) -> str:
    """Return the text of a file with captions, unpacked if it is .gz; DataError: that is impossible."""
    try:
        data = read_file(path, most=LARGEST_TABLE)
        if str(path).endswith(".gz"):
            import gzip

            data = gzip.GzipFile(fileobj=io.BytesIO(data)).read(LARGEST_TABLE + 1)
        if len(data) > LARGEST_TABLE:
            raise DataError(f"{name} has more than {LARGEST_TABLE:,} bytes: give fewer captions")
        return decode_text(data)
    except UnreadableImage as error:
        raise DataError(f"{name} cannot be read: {error.reason}") from error
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{name} cannot be unpacked: {error}") from error
    except ValueError as error:
        raise DataError(f"{name} is {error}") from None


def read_caption_lines(path: str | Path) -> list[str]:
    """Return the captions of a text file, one a line, unpacked if it is .gz; DataError: see `read_text`."""
    return list(clean_captions(lines_of(read_text(path, str(path)))))
