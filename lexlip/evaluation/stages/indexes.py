"""What a first stage searches, written where another process can open it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tqdm import tqdm

from anserini_bridge import ImpactWriter, folder_megabytes
from anserini_bridge.bm25 import write_bm25_index
from lexlip.data import Source
from lexlip.evaluation.bm25 import draw
from lexlip.evaluation.distractors import gaussian, recombined
from lexlip.evaluation.first_stages import Measured, Settings, first_stage_folder
from lexlip.evaluation.pool import CaptionPool, Documents
from lexlip.evaluation.stages.response import Index
from lexlip.search.engines import describe
from lexlip.search.faiss_index import Ann, FaissIndex, make_faiss
from lexlip.sparse.quantize import quantize
from lexlip.sparse.topk import topk


def write_index(
    folder: Path, stage: Measured, source: Source, settings: Settings, photos: int | None = None
) -> Index:
    """An index of the photos of a first stage.

    Args:
        folder: an empty one.
        stage: with the photos' vectors.
        source: the photos with their captions, for BM25.
        settings: those that it was measured with.
        photos: in the index; synthetic vectors make up for those that there are not (see
            `lexlip.evaluation.distractors`), which BM25 cannot have. None: all that there are.
    """
    if stage.model is None:
        t2i, _ = draw(CaptionPool.of(source), np.random.default_rng(0))
        write_bm25_index(folder / "captions", t2i.ids, t2i.documents)
        return Index("captions", folder / "captions", len(t2i.ids), folder_megabytes(folder / "captions"))
    documents = _documents(stage, photos)
    dense = stage.model.vocabulary is None
    with tqdm(
        total=len(documents),
        unit="photo",
        desc=f"index of {stage.name}",
        disable=not settings.progress or None,
        delay=2,
    ) as bar:
        (_write_vectors if dense else _write_words)(folder, stage, documents, settings, bar)
    return Index(
        kind="dense" if dense else "words",
        folder=folder,
        photos=len(documents),
        megabytes=folder_megabytes(folder),
        model=str(first_stage_folder(stage.name)),
        metric=stage.model.metric,
        query_topk=settings.query_topk,
    )


def _documents(stage: Measured, photos: int | None) -> Documents:
    assert stage.encoded is not None
    assert stage.model is not None
    ids, vectors = stage.encoded.image_ids[:photos], stage.encoded.images[:photos]
    more = 0 if photos is None else max(0, photos - len(ids))
    return Documents(ids, vectors, more, gaussian if stage.model.vocabulary is None else recombined, vectors)


def _write_vectors(
    folder: Path, stage: Measured, documents: Documents, settings: Settings, bar: tqdm
) -> None:
    assert stage.model is not None
    ann: Ann = "hnsw" if settings.engine == "hnsw" else "flat"
    vectors = FaissIndex(make_faiss(stage.model.dimensions, ann), metric=stage.model.metric)
    for names, rows in documents:
        vectors.add(names, rows)
        bar.update(len(names))
    vectors.save(folder)


def _write_words(folder: Path, stage: Measured, documents: Documents, settings: Settings, bar: tqdm) -> None:
    assert stage.model is not None
    assert stage.model.vocabulary is not None
    with ImpactWriter(
        folder,
        stage.model.vocabulary.words,
        encoder="temporary",
        quantization=describe(settings.scheme),
        topk=stage.topk,
        normalize=settings.scheme == "unit",
    ) as writer:
        for names, rows in documents:
            writer.add(names, quantize(topk(rows, stage.topk), settings.scheme))
            bar.update(len(names))
