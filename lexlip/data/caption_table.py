"""Tables of photos and captions: TSV, CSV, Flickr8k's and Flickr30k's own."""

import csv
import io
import re
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

from lexlip.data.caption_files import CaptionedSource, Entry, read_text, split_name
from lexlip.data.source import Skipped
from lexlip.errors import DataError

SUFFIXES = (".tsv", ".csv", ".txt")
PHOTO = ("image", "image_name", "image_path", "filename", "file_name", "filepath", "path", "file")
CAPTION = ("caption", "title", "text", "comment", "sentence")
SPLIT = ("split",)


class TableSource(CaptionedSource):
    """Photos that a table names: one caption per row; the rows of one photo are put together.

    Without a header line, the first column is the photo and the second the caption, or the third if the
    second is a number. These are all read as they are:

        image,caption,split                        a header: see PHOTO, CAPTION and SPLIT for the names
        1000268201.jpg#0<TAB>A child climbs stairs       Flickr8k
        1000092795.jpg| 0| Two men look at their hands   Flickr30k

    Args:
        path: the table.
        images: where the photos are, see `CaptionedSource`; None is the folder of the table.
        split: the one to take; None takes all.
        name: what the user gave.

    Raises:
        DataError: the table cannot be read, or see `CaptionedSource`.
    """

    def __init__(self, path: Path, images: Path | None, split: str | None, name: str) -> None:
        skipped: list[Skipped] = []
        entries = list(read_entries(path, name, skipped))
        super().__init__(name, entries, images or path.parent, split, skipped)


def read_entries(path: Path, name: str, skipped: list[Skipped]) -> Iterator[Entry]:
    """Yield the rows of a table; those that cannot be read or are too short go to `skipped`.

    Raises:
        DataError: the table or its first row cannot be read, or its header lacks a column.
    """
    text = read_text(path, name)
    delimiter = _delimiter(text.lstrip().partition("\n")[0])
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
    quoting = csv.QUOTE_MINIMAL if delimiter == "," else csv.QUOTE_NONE  # a quote means nothing in TSV
    return csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=strict)  # type: ignore[arg-type]


def _alone(line: str, delimiter: str, error: csv.Error) -> list[str] | csv.Error:
    """Return the cells of a line that is not written by the rules, such as "Stop", says the sign."""
    if delimiter == "," and line.count('"') % 2:
        return csv.Error("a quote is not closed")
    try:
        return next(_parse([line], delimiter, strict=False))
    except csv.Error:
        too_long = csv.Error(f"a cell has more than {csv.field_size_limit():,} characters")
        return too_long if len(line) > csv.field_size_limit() else error


def _delimiter(line: str) -> str:
    return next((mark for mark in "\t|" if mark in line), ",")


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
