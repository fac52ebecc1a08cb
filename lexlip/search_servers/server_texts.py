"""Reads the text in the photos of an index on a server, after their words have been written.

See `lexlip.indexing.reading`, which does so for an index in a folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from lexlip.data import Source
from lexlip.errors import UnreadableImage
from lexlip.indexing.reading import read_texts
from lexlip.indexing.text_reader import reader_name
from lexlip.retrieval.text_lines import TextLine, plain_lines
from lexlip.search_servers.photo_documents import NO_TEXT, TextFacts, facts_of, text_facts
from lexlip.search_servers.photo_index import PhotoIndex
from lexlip.search_servers.photo_queries import Has


def forget_texts(index: PhotoIndex) -> None:
    """Forget what is known of the text in photos."""
    with index.bulks() as add:
        known = (id for id, facts in _facts(index) if text_facts(facts) != NO_TEXT)
        index.write_facts(dict.fromkeys(known, NO_TEXT), add)
    index.refresh()


def read_unread(index: PhotoIndex, source: Source, workers: int, progress: bool) -> dict[str, int]:
    """Read the text in those photos where that is still to be done, one of each content.

    Args:
        index: in which it is written.
        source: the photos; those that are not there are left to a later run.
        workers, progress: see `lexlip.indexing.reading.with_text`.

    Returns:
        What a report says of it.
    """
    reader = reader_name() if find_spec("rapidocr") is not None else None
    unread: dict[str, list[str]] = {}  # ids by digest
    for id, facts in _facts(index):
        if facts["digest"] and facts["text"] is None and facts["text_failed"] != reader:
            unread.setdefault(facts["digest"], []).append(id)
    numbers = {item.id: number for number, item in enumerate(source.items)} if unread else {}

    def read_file(id: str) -> bytes:
        if id not in numbers:
            raise UnreadableImage("it is out of reach", id)
        return source.read(numbers[id])

    def store(found: Mapping[str, Iterable[TextLine]], failed: Mapping[str, str]) -> None:
        known = {
            digest: TextFacts(text=plain_lines(lines), text_failed="") for digest, lines in found.items()
        }
        known |= {digest: TextFacts(text=None, text_failed=by) for digest, by in failed.items()}
        ids = {id: known[digest] for digest in known for id in unread.get(digest, ())}
        with index.bulks() as add:
            index.write_facts(ids, add)
        index.refresh()

    read = failed = 0
    if reader is not None and unread:
        firsts = [next((id for id in ids if id in numbers), ids[0]) for ids in unread.values()]
        read, failed = read_texts(firsts, read_file, store, workers, progress)
    return {
        "text_read": read,
        "text_failed": failed,
        "text_unread": len(unread) - read - failed,
        "with_text": index.count(Has("given.text")),
    }


def _facts(index: PhotoIndex) -> Iterator[tuple[str, dict[str, Any]]]:
    with index.understood():
        yield from map(facts_of, index.facts())
