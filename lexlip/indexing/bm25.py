"""Indexes photos by the words of their captions, in Lucene's BM25."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from anserini_bridge import replace_index, with_checksums, write_metadata
from anserini_bridge.bm25 import Bm25Searcher, write_bm25_index
from lexlip.data import Skipped, Source
from lexlip.data.facts import Facts
from lexlip.data.source import no_captions
from lexlip.errors import writing_index
from lexlip.indexing.report import Indexed, report
from lexlip.indexing.table_writer import TableWriter
from lexlip.machine.resources import cores
from lexlip.registry import BM25
from lexlip.retrieval.collection import describe_collection
from lexlip.retrieval.seal import seal_table
from lexlip.search.stages.bm25 import BM25Metadata

NO_CAPTION = "no caption"  # why a photo is left out


def index_captions(source: Source, listed: float, index: str | Path, language: str = "en") -> Indexed:
    """Index the photos of a source by their captions.

    Of a photo only the beginning is read, for the facts that it tells; they stay unknown if it cannot be.

    Args:
        source, listed, index: see `lexlip.indexing.impact.index_photos`.
        language: of the captions, one of `anserini_bridge.bm25.LANGUAGES`; a search uses the same.

    Raises:
        DataError: no photo has a caption, or the folder cannot be written; the old index stays.
        BridgeError: no Java, the folder is not an index, or another process is writing to it.
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
    """Write an index of texts, which replaces an old one; return its postings.

    Args:
        index: the index's folder.
        ids, texts: of the n documents.
        extra: what else the index stores.
        language: see `index_captions`.
        write_table: writes a table of photos to the data folder; returns what to store instead of `extra`.

    Raises:
        BridgeError: no Java, the folder is not an index, or another process is writing to it.
    """
    with replace_index(index) as folder:
        write_bm25_index(folder / "lucene", ids, texts, language)
        with Bm25Searcher(folder / "lucene", language=language) as searcher:
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
        tables = [] if write_table is None else [extra["photos"]]
        write_metadata(index, with_checksums(index, metadata, tables))
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
