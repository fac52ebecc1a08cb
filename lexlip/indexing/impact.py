"""Indexes photos by weighted words: encode, keep K of them, quantise, write to Lucene."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix, vstack

from anserini_bridge import read_metadata, write_json_vectors
from lexlip.data import Source
from lexlip.data.images import READER
from lexlip.errors import writing, writing_index
from lexlip.indexing.bm25 import files_beside, write_caption_index
from lexlip.indexing.changes import known_photos
from lexlip.indexing.journal import Journal, settings_of
from lexlip.indexing.reading import text_is_wanted, texts_of_index
from lexlip.indexing.report import Indexed, report
from lexlip.indexing.table_writer import TableWriter
from lexlip.queries.photo_vectors import PhotoVectors, Progress, in_thread
from lexlip.retrieval.collection import describe_collection
from lexlip.retrieval.seal import seal_table
from lexlip.search.engines.lucene import impact_writer
from lexlip.sparse.balance import quantize_documents, usual_scheme
from lexlip.sparse.quantize import Scheme

if TYPE_CHECKING:
    from lexlip.models.lexlip import LexLIP

Impacts = tuple[list[str], csr_matrix]  # ids, whole weights [n, V]


def index_photos(
    model: LexLIP,
    model_name: str,
    source: Source,
    listed: float,
    index: str | Path,
    topk_words: int | None = 32,
    scheme: Scheme | None = None,
    pseudo_documents: str | Path | None = None,
    workers: int = 2,
    progress: bool | Progress = False,
    of_more: bool = False,
    earlier: Path | None = None,
    sealed: bool = True,
    complete: Callable[[PhotoVectors], None] | None = None,
) -> Indexed:
    """Index the photos of a source; an index that exists already answers until the new one is complete.

    Args:
        model, model_name: the encoder, and the name by which a search finds it again.
        source, listed: the photos, and when their listing began, in seconds since 1970.
        topk_words: words that a photo keeps; None keeps all.
        scheme: see `lexlip.sparse.quantize`; None is as the model ranks, see `usual_scheme`.
        pseudo_documents: a .jsonl file to which the documents are also written, for Anserini's
            JsonVectorCollection; they are held in memory for it.
        workers: threads that decode photos.
        progress: show a progress bar; or is told how many photos are done, of how many, after each batch.
        of_more: this is a shard of an index, which itself indexes captions and keywords, and is sealed.
        earlier: an index of these photos as they were, made with the same model and settings: what it holds
            is not encoded again.
        sealed: whether this user has named the source, now or when the index was made.
        complete: is called when all photos are encoded; the old index stays if it raises an error.

    Raises:
        DataError: no photo could be read, or the folder cannot be written; the old index stays.
    """
    started = time.perf_counter()
    index = Path(index)
    extra = {"model": model_name, "reader": READER, **describe_collection(source, index, listed)}
    if text_is_wanted(index):
        extra["text"] = 1
    scheme = scheme or usual_scheme(model.balance, model.metric)
    settings = settings_of(model.identity, topk_words, scheme)
    words = model.vocabulary.words
    writer = impact_writer(index, words, scheme, topk_words, model.identity, extra, flat=not of_more)
    journal = Journal(index, settings, source, listed, len(words), np.int32)
    documents: list[Impacts] = []
    with writing_index(index), writer, journal:
        if earlier is not None:
            journal.keep(known_photos(earlier, source, journal.missing))
        bar = progress if callable(progress) else "index" if progress else None
        photos = PhotoVectors(
            model, source, workers=workers, progress=bar, indices=journal.missing, facts=True
        )
        with TableWriter(writer.folder, index, source) as table:
            for ids, rows, facts in journal.all(photos, impacts(photos, topk_words, scheme)):
                writer.add(ids, rows)
                table.add(facts)
                if pseudo_documents is not None:
                    documents.append((ids, rows))
            table.remember(photos.unreadable)
            table.add_texts(*texts_of_index(index))
        if len(photos.skipped) == len(source):
            raise photos.none_read()
        if complete is not None:
            complete(photos)
        extra["photos"] = table.name
        if not of_more:
            extra = write_caption_index(writer.folder, index, extra, {})
            extra = seal_table(extra, writer.folder) if sealed else extra
        writer.set_extra(extra, files_beside(writer.folder, extra))
        if pseudo_documents is not None:
            _write_pseudo_documents(pseudo_documents, documents, words)
    postings = read_metadata(index).postings
    done = report(Indexed, index, source, started, postings, photos.skipped, len(journal.kept))
    return replace(done, unsealed="") if of_more else done


def impacts(photos: PhotoVectors, topk_words: int | None, scheme: Scheme) -> Iterator[Impacts]:
    """Yield the photos' ids and whole weights of the words that they keep."""
    bank = photos.model.balance and photos.model.balance.photos
    return in_thread(lambda vectors: quantize_documents(vectors, topk_words, scheme, bank), photos)


def _write_pseudo_documents(path: str | Path, documents: list[Impacts], words: Sequence[str]) -> None:
    ids = [id for batch, _ in documents for id in batch]
    rows = vstack([rows for _, rows in documents], format="csr")
    with writing(str(path)):
        write_json_vectors(path, ids, rows, words)
