"""The index of a first stage, written as `lexlip index` writes one, so that another process can open it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from anserini_bridge import folder_megabytes, replace_index
from lexlip.bench.distractors import Documents, gaussian, recombined
from lexlip.bench.response import TimedIndex
from lexlip.bench.tables.first_stages import Measured, first_stage_folder
from lexlip.bench.tables.settings import TableSettings
from lexlip.data import Source
from lexlip.indexing.bm25 import write_captions
from lexlip.machine.progress import ProgressBar
from lexlip.measure.bm25_recall import draw
from lexlip.measure.pool import CaptionedPool, PoolVectors
from lexlip.models.contract import Encoder
from lexlip.registry import BM25
from lexlip.search.engines.lucene import impact_writer
from lexlip.sparse.balance import quantize_documents

if TYPE_CHECKING:
    from lexlip.search.engines.faiss_index import Ann


def write_timed_index(
    folder: Path, stage: Measured, source: Source, settings: TableSettings, photos: int | None = None
) -> TimedIndex:
    """Write the index of a first stage.

    Args:
        folder: the index's.
        stage: with the photos' vectors.
        source: the photos with their captions, for BM25.
        settings: those that it was measured with.
        photos: in the index; synthetic vectors replace those that are missing (see
            `lexlip.bench.distractors`), which BM25 cannot have. None: all that there are.
    """
    if stage.vectors is None:
        t2i, _ = draw(CaptionedPool.of(source), np.random.default_rng(0))
        write_captions(folder, t2i.ids, t2i.documents, {"model": BM25})
        return TimedIndex(folder, len(t2i.ids), folder_megabytes(folder))
    documents, model = _documents(stage.vectors, photos), stage.vectors.model
    name = str(first_stage_folder(stage.name))
    with settings.bar(f"index of {stage.name}", len(documents), "photo") as bar:
        if model.vocabulary is None:
            _write_vectors(
                folder, documents, model, name, "hnsw" if settings.engine == "hnsw" else "flat", bar
            )
            return TimedIndex(folder, len(documents), folder_megabytes(folder))
        words = model.vocabulary.words
        extra, scheme = {"model": name}, settings.scheme_of(model)
        bank = model.balance and model.balance.photos
        with impact_writer(folder, words, scheme, stage.topk, model.identity, extra) as writer:
            for names, rows in documents:
                writer.add(names, quantize_documents(rows, stage.topk, scheme, bank))
                bar.update(len(names))
    return TimedIndex(folder, len(documents), folder_megabytes(folder), settings.query_topk)


def _documents(vectors: PoolVectors, photos: int | None) -> Documents:
    ids, rows = vectors.pool.image_ids[:photos], vectors.images[:photos]
    more = 0 if photos is None else max(0, photos - len(ids))
    return Documents(ids, rows, more, gaussian if vectors.model.vocabulary is None else recombined, rows)


def _write_vectors(
    folder: Path, documents: Documents, model: Encoder, name: str, ann: Ann, bar: ProgressBar
) -> None:
    from lexlip.indexing.dense import save_vectors  # Faiss is of the extra dense
    from lexlip.search.engines.faiss_index import FaissIndex, make_faiss

    vectors = FaissIndex(make_faiss(model.dimensions, ann), metric=model.metric)
    for names, rows in documents:
        vectors.add(names, rows)
        bar.update(len(names))
    with replace_index(folder) as data:
        save_vectors(folder, data, vectors, model, ann, {"model": name})
