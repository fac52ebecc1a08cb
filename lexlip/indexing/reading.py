"""Reads the text in an index's photos, and stores it with their table.

Photos are found by what they show before their text is read, and stay so meanwhile. What was read is stored
every minute, and when the run is interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from anserini_bridge import IndexMetadata, read_header, read_metadata, update_index
from lexlip.data import UnreadableImage
from lexlip.data.facts import digest
from lexlip.data.images import TIFF, decode, later_pages
from lexlip.errors import EXTRAS, FixableError, MissingPackage, out_of_memory, writing_index
from lexlip.indexing.bm25 import files_beside
from lexlip.indexing.report import Report
from lexlip.indexing.table_writer import TableWriter, remove_old_tables
from lexlip.indexing.text_reader import READ_SIDE, TextReader, reader_name
from lexlip.machine.progress import ProgressBar
from lexlip.retrieval.photo_table import open_photos
from lexlip.retrieval.seal import is_sealed, seal_table
from lexlip.retrieval.text_lines import NOWHERE, TextLine

if TYPE_CHECKING:
    from PIL import Image

    from lexlip.queries.photo_vectors import Progress

EVERY = 60.0  # seconds after which what was read is stored, or more: a tenth of the time goes into it at most


Store = Callable[[Mapping[str, Iterable[TextLine]], Mapping[str, str]], None]
"""Stores the lines of photos by their digests, and which reader has failed on others."""


class _Opened(NamedTuple):
    """A photo whose text is to be read, with the bytes of a TIFF; without a picture, it cannot be."""

    digest: str
    picture: Image.Image | None
    data: bytes = b""


def check_reader(wanted: bool | None) -> None:
    """Raise MissingPackage if text is wanted, and RapidOCR is not installed."""
    if wanted and find_spec("rapidocr") is None:
        raise MissingPackage(f"to read the text in photos, {EXTRAS['rapidocr']}", name="rapidocr")


def text_is_wanted(index: Path) -> bool:
    """Return whether the text in photos is read for the index that is there."""
    with suppress(FixableError):
        return "text" in read_header(index).extra
    return False


def texts_of_index(index: Path) -> tuple[dict[str, tuple[TextLine, ...]], dict[str, str]]:
    """Return the text in photos, by their digests, as the index that is there has them.

    And which reader of text has failed on photos.
    """
    with suppress(FixableError), open_photos(index, read_header(index)) as table:
        return table.lines(), table.unreadable_texts()
    return {}, {}


def with_text(
    done: Report, wanted: bool | None, workers: int = 2, progress: bool | Progress = False
) -> Report:
    """Read the text in the photos of an index of words that has just been written, if that is wanted.

    Args:
        done: what was done before.
        wanted: whether text is to be read; None is as it was for the index before. False forgets it.
        workers: threads that decode photos.
        progress: see `lexlip.indexing.impact.index_photos`.

    Returns:
        The same, with how many photos were looked at and how many have text, and the time of all.
        A photo on which RapidOCR fails is told once, and tried again by another version of it.

    Raises:
        DataError: the index cannot be written.
    """
    started = time.perf_counter()
    index = Path(done.index)
    metadata = read_metadata(index)
    before = "text" in metadata.extra
    if wanted is False:
        if before:
            _store(index, None)
        return done
    if not (wanted or before):
        return done
    there = find_spec("rapidocr") is not None
    with open_photos(index, metadata) as table:
        unread, read, failed = table.unread(reader_name() if there else ""), 0, 0
        if there and (unread or not before):
            read, failed = read_texts(unread, table.read, partial(_store, index), workers, progress)
    with open_photos(index, read_metadata(index)) as table:
        return replace(
            done,
            text_read=read,
            text_unread=len(unread) - read - failed,
            text_failed=failed,
            with_text=table.with_text(),
            seconds=done.seconds + time.perf_counter() - started,
        )


def read_texts(
    ids: Sequence[str],
    read_file: Callable[[str], bytes],
    store: Store,
    workers: int,
    progress: bool | Progress,
) -> tuple[int, int]:
    """Read the text in photos, and store it every minute, and in the end.

    Args:
        ids: of the photos, one of each content.
        read_file: returns the bytes of a photo, given its id; UnreadableImage: a later run reads it.
        store, workers, progress: see `Store` and `with_text`.

    Returns:
        Of how many that could be done, and on how many RapidOCR failed.
    """
    report = progress if callable(progress) else lambda done, total: None
    reader, found, failed = TextReader(), dict[str, tuple[TextLine, ...]](), dict[str, str]()
    read, failures, stored, cost = 0, 0, time.monotonic(), 0.0
    try:
        with ProgressBar(
            total=len(ids), unit="photo", desc="read text", disable=progress is not True, delay=1
        ) as bar:
            for done, photo in enumerate(_opened(read_file, ids, workers), 1):
                if photo.picture is not None:
                    lines = _lines(reader, photo.picture, photo.data)
                    if lines is None:
                        failed[photo.digest] = reader_name()
                        failures += 1
                    else:
                        found[photo.digest] = lines
                        read += 1
                bar.update()
                report(done, len(ids))
                if time.monotonic() - stored > max(EVERY, 10 * cost):
                    started = time.monotonic()
                    store(found, failed)
                    found, failed, stored = {}, {}, time.monotonic()
                    cost = stored - started
    finally:
        store(found, failed)
    return read, failures


def _lines(reader: TextReader, picture: Image.Image, data: bytes) -> tuple[TextLine, ...] | None:
    """Return the text in a photo; None if RapidOCR or OpenCV fails, which must not stop the others.

    Lines of further pages, which nobody is shown, are at no place.
    """
    try:
        later = (line.text for page in later_pages(data) for line in reader.read(page))
        return (*reader.read(picture), *(TextLine(text, NOWHERE) for text in later))
    except Exception as error:
        if out_of_memory(error):
            raise
        return None


def _opened(read_file: Callable[[str], bytes], ids: Sequence[str], workers: int) -> Iterator[_Opened]:
    """Yield photos, while threads open those that come next."""

    def open_photo(id: str) -> _Opened:
        try:
            data = read_file(id)
            return _Opened(digest(data), decode(data, READ_SIDE), data if data.startswith(TIFF) else b"")
        except UnreadableImage:  # it is gone, or out of reach: a later run reads it
            return _Opened("", None)

    with ThreadPoolExecutor(max(1, workers)) as pool:
        left = iter(ids)
        ahead = [pool.submit(open_photo, id) for id in islice(left, 2 * max(1, workers))]
        while ahead:
            yield ahead.pop(0).result()
            ahead += [pool.submit(open_photo, id) for id in islice(left, 1)]


def _store(
    index: Path, found: Mapping[str, Iterable[TextLine]] | None, failed: Mapping[str, str] | None = None
) -> None:
    """Store the lines of photos by their digests, and where a reader failed; None forgets all."""
    writer = update_index(index, flat=True)
    with writing_index(index), writer:
        metadata: IndexMetadata = read_metadata(index)
        extra = {**metadata.extra, "text": 1}
        if found is None:
            del extra["text"]
        sealed = is_sealed(index, metadata)
        remove_old_tables(writer.folder, keep=extra["photos"])
        with TableWriter(writer.folder, index, None, extra["photos"]) as table:
            table.add_texts(found, failed)
        extra["photos"] = table.name
        extra = seal_table(extra, writer.folder) if sealed else extra
        writer.set_extra(extra, files_beside(writer.folder, extra))
