"""Indexes photos by the words of their captions, in Lucene's BM25: alone, or beside the photos' own words.

Beside them are captions and keywords, to be searched along:
DIR/data-<n>/captions-<m>/, a plain Lucene index; `extra["captions"]` of index.json says which:
{"folder": "captions-1", "language": "en", "documents": 12}. Without captions and keywords there is none.
Without Anserini they cannot be indexed: `extra["captions_left_out"]` says of how many photos.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from anserini_bridge import replace_index, with_checksums, write_metadata
from anserini_bridge.bm25 import Bm25Searcher, write_bm25_index
from anserini_bridge.integrity import LUCENE_FOLDER, files_below
from anserini_bridge.jvm import has_anserini
from lexlip.data import Skipped, Source
from lexlip.data.facts import Facts
from lexlip.data.source import no_captions
from lexlip.errors import writing_index
from lexlip.indexing.report import Indexed, report
from lexlip.indexing.table_writer import TableWriter
from lexlip.machine.resources import cores
from lexlip.registry import BM25
from lexlip.retrieval.collection import describe_collection
from lexlip.retrieval.photo_table import PhotoTable
from lexlip.retrieval.seal import seal_table
from lexlip.search.stages.bm25 import BM25Metadata

NO_CAPTION = "no caption"  # why a photo is left out
LANGUAGE = "en"  # of captions beside words
_FOLDER = re.compile(r"captions-([1-9][0-9]*)")


def index_captions(source: Source, listed: float, index: str | Path, language: str = "en") -> Indexed:
    """Index the photos of a source by their captions.

    Of a photo only the beginning is read, for the facts that it tells; they stay unknown if it cannot be. The
    language is one of `anserini_bridge.bm25.LANGUAGES`; a search uses the same.

    Raises:
        DataError: no photo has a caption, or the folder cannot be written; the old index stays.
    """
    started = time.perf_counter()
    index = Path(index)
    texts = {item.id: " ".join(item.captions) for item in source.items if item.captions}
    without = [Skipped(item.id, NO_CAPTION) for item in source.items if not item.captions]
    if not texts:
        raise no_captions(source.name)
    extra = {"model": BM25, **describe_collection(source, index, listed)}
    write_table = partial(_write_table, index, source, extra)
    with writing_index(index):
        postings = write_captions(index, list(texts), list(texts.values()), extra, language, write_table)
    return report(Indexed, index, source, started, postings, without)


def write_captions(
    index: Path,
    ids: Sequence[str],
    texts: Sequence[str],
    extra: Mapping[str, Any],
    language: str = "en",
    write_table: Callable[[Path], dict[str, Any]] | None = None,
) -> int:
    """Write an index of n documents, which replaces an old one; return its postings.

    Args:
        index: the index's folder.
        ids, texts, language: of the documents.
        extra: what else the index stores.
        write_table: writes a table of photos to the data folder; returns what to store instead of `extra`.
    """
    with replace_index(index) as folder:
        write_bm25_index(folder / LUCENE_FOLDER, ids, texts, language)
        with Bm25Searcher(folder / LUCENE_FOLDER, language=language) as searcher:
            postings = searcher.postings
        extra = dict(extra) if write_table is None else write_table(folder)
        metadata = BM25Metadata(
            directory=folder.name,
            documents=len(ids),
            encoder=BM25,
            postings=postings,
            language=language,
            extra=extra,
        )
        files = files_below(folder / LUCENE_FOLDER) + ([] if write_table is None else [extra["photos"]])
        write_metadata(index, with_checksums(index, metadata, files))
    return postings


def _write_table(index: Path, source: Source, extra: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Write the table of the photos that have captions; return what the index stores."""

    def facts(number: int) -> Facts:
        state = source.state(number)  # before the file is read: it may change meanwhile
        return replace(source.header(number), state=state)

    captioned = source.captioned().tolist()
    with TableWriter(folder, index, source) as table, ThreadPoolExecutor(cores()) as pool:
        table.add(zip(captioned, pool.map(facts, captioned), strict=True))
    return seal_table({**extra, "photos": table.name}, folder)


def write_caption_index(
    folder: Path, index: Path, extra: dict[str, Any], old: dict[str, Any]
) -> dict[str, Any]:
    """Index captions and keywords as a new table of photos has them; one whose texts are the same stays.

    Args:
        folder, index: the index's data folder, and its folder.
        extra, old: what index.json will say, the table's name included, and what it says now.

    Returns:
        What index.json will say, with "captions" if there are any, or "captions_left_out".
    """
    ids, texts = _texts(folder, index, extra)
    if not ids:
        return extra
    if {"captions", "photos"} <= old.keys() and (ids, texts) == _texts(folder, index, old):
        return {**extra, "captions": old["captions"]}
    return {**extra, **write_texts(folder, ids, texts)}


def write_texts(folder: Path, ids: list[str], texts: list[str]) -> dict[str, Any]:
    """Index the captions and keywords of photos, each one text.

    Returns "captions" or "captions_left_out" of index.json; nothing without texts.
    """
    if not ids:
        return {}
    if not has_anserini():
        return {"captions_left_out": len(ids)}
    found = [_FOLDER.fullmatch(path.name) for path in folder.glob("captions-*")]
    name = f"captions-{max((int(match[1]) for match in found if match), default=0) + 1}"
    write_bm25_index(folder / name, ids, texts, LANGUAGE)
    return {"captions": {"folder": name, "language": LANGUAGE, "documents": len(ids)}}


def remove_old_captions(folder: Path, keep: str | None) -> None:
    """Delete the indexes of captions that index.json does not name; the caller holds the index's lock."""
    for path in folder.glob("captions-*"):
        if _FOLDER.fullmatch(path.name) and path.name != keep:
            shutil.rmtree(path, ignore_errors=True)


def files_beside(folder: Path, extra: Mapping[str, Any]) -> list[str]:
    """Return the names of the files beside the photos' words: the table, and those of the captions."""
    captions = extra.get("captions")
    return [extra["photos"], *(files_below(folder / captions["folder"]) if captions else ())]


def _texts(folder: Path, index: Path, extra: dict[str, Any]) -> tuple[list[str], list[str]]:
    with PhotoTable(index, folder / extra["photos"]) as table:
        return table.texts()
