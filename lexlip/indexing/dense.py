"""Indexes photos by dense vectors, in Faiss."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anserini_bridge import replace_index, with_checksums, write_metadata
from lexlip.data import Source
from lexlip.errors import writing_index
from lexlip.indexing.journal import Journal
from lexlip.indexing.report import Indexed, report
from lexlip.indexing.table_writer import TableWriter
from lexlip.queries.photo_vectors import PhotoVectors
from lexlip.retrieval.collection import describe_collection
from lexlip.retrieval.seal import seal_table
from lexlip.search.engines.faiss_index import IDS, VECTORS, Ann, FaissIndex, make_faiss
from lexlip.search.stages.dense import DenseMetadata

if TYPE_CHECKING:
    from lexlip.models.contract import Encoder


def index_vectors(
    model: Encoder,
    model_name: str,
    source: Source,
    listed: float,
    index: str | Path,
    ann: Ann = "flat",
    workers: int = 2,
    progress: bool = False,
) -> Indexed:
    """Index the photos of a source by dense vectors, which are held in memory until all are written.

    For `ann` see `lexlip.search.engines.faiss_index.make_faiss`, for the rest and what is raised
    `lexlip.indexing.impact.index_photos`.
    """
    started = time.perf_counter()
    index = Path(index)
    extra = {"model": model_name, **describe_collection(source, index, listed)}
    vectors = FaissIndex(make_faiss(model.dimensions, ann), metric=model.metric)
    journal = Journal(index, {"encoder": model.identity}, source, listed, model.dimensions, np.float32)
    with writing_index(index), replace_index(index) as folder, journal:
        bar = "index" if progress else None
        photos = PhotoVectors(
            model, source, workers=workers, progress=bar, indices=journal.missing, facts=True
        )
        with TableWriter(folder, index, source) as table:
            for ids, rows, facts in journal.all(photos, photos):
                vectors.add(ids, rows)
                table.add(facts)
        if not vectors.ids:
            raise photos.none_read()
        extra = seal_table({**extra, "photos": table.name}, folder)
        save_vectors(index, folder, vectors, model, ann, extra)
    return report(Indexed, index, source, started, None, photos.skipped, len(journal.kept))


def save_vectors(
    index: Path, folder: Path, vectors: FaissIndex, model: Encoder, ann: Ann, extra: Mapping[str, Any]
) -> None:
    """Write the vectors of all photos to a new data folder of an index, and make it the one that counts.

    The folder is that of `anserini_bridge.replace_index`; `extra` is what else the index stores.
    """
    vectors.save(folder)
    metadata = DenseMetadata(
        directory=folder.name,
        documents=len(vectors),
        encoder=model.identity,
        model_kind=model.kind,
        metric=model.metric,
        ann=ann,
        dimensions=model.dimensions,
        extra=dict(extra),
    )
    table = [extra["photos"]] if "photos" in extra else []
    write_metadata(index, with_checksums(index, metadata, [VECTORS, IDS, *table]))
