"""Dense vectors in Table 2 of LexLIP: CLIP by brute force in Faiss, or random vectors of its size."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy.sparse import csr_matrix

from anserini_bridge import folder_megabytes
from lexlip.bench.distractors import Documents, gaussian
from lexlip.bench.tables.row import IndexSize, Row
from lexlip.bench.tables.settings import TableSettings
from lexlip.bench.tables.system import System, recall_of, seconds_of
from lexlip.bench.throughput import Timed
from lexlip.machine.resources import cores
from lexlip.measure.pool import CaptionedPool, PoolVectors
from lexlip.registry import Metric
from lexlip.search.engines.faiss_index import BATCH, IDS, FaissIndex, make_faiss

FLOAT_BYTES = 4
DIMENSIONS = 512  # of a vector of CLIP ViT-B/32


def flat(vectors: PoolVectors, settings: TableSettings) -> list[System]:
    """CLIP in Faiss, scored one query at a time and many together."""
    pool, metric = vectors.pool, vectors.model.metric
    captions = _faiss(pool.text_ids, vectors.captions, metric, settings, "CLIP, captions")
    what = "CLIP, image to text"
    i2t = recall_of(captions.search, vectors.query_images, pool.relevant_texts, what, settings)
    del captions  # its memory is needed for the photos
    photos = _faiss(pool.image_ids, vectors.images, metric, settings, "CLIP, photos")
    queries, what = vectors.query_captions(), "CLIP, text to image"
    t2i = recall_of(photos.search, queries, pool.relevant_images, what, settings)
    return _flat_systems(photos, queries, settings, t2i, i2t)


def flat_without_weights(pool: CaptionedPool, settings: TableSettings) -> list[System]:
    """Return `flat` with random vectors of the size of CLIP ViT-B/32's; brute force takes equally long."""
    rng = np.random.default_rng(settings.seed)
    vectors, queries = (
        csr_matrix(rng.standard_normal((rows, DIMENSIONS), dtype=np.float32))
        for rows in (len(pool.image_ids), pool.text_queries)
    )
    return _flat_systems(
        _faiss(pool.image_ids, vectors, "cosine", settings, "CLIP, photos"), queries, settings
    )


def _faiss(
    ids: Sequence[str], vectors: csr_matrix, metric: Metric, settings: TableSettings, what: str
) -> FaissIndex:
    documents = Documents(ids, vectors, settings.synthetic, gaussian, vectors, settings.seed)
    index = FaissIndex(make_faiss(vectors.shape[1]), (), metric, cores(), BATCH)
    with settings.bar(what, len(documents), "document") as bar:
        for names, rows in documents:
            index.add(names, rows)
            bar.update(len(names))
    return index


def _flat_systems(
    index: FaissIndex,
    queries: csr_matrix,
    settings: TableSettings,
    t2i: dict[str, float] | None = None,
    i2t: dict[str, float] | None = None,
) -> list[System]:
    with TemporaryDirectory(prefix="lexlip-") as folder:
        index.save(Path(folder))
        size, ids = folder_megabytes(Path(folder)), (Path(folder) / IDS).stat().st_size / 1e6
    queries = queries[np.random.default_rng(settings.seed).permutation(queries.shape[0])]
    systems = []
    for how, batch in (("one by one", 1), (f"{BATCH} together", BATCH)):
        row = Row(
            model=f"CLIP, {how}",
            documents="dense",
            photos=len(index),
            index=IndexSize(
                megabytes=size, megabytes_without_ids=size - ids, accounted=FLOAT_BYTES * queries.shape[1]
            ),
            photo_bytes=1e6 * size / len(index),
            t2i=t2i,
            i2t=i2t,
        )
        shared = FaissIndex(index.vectors, index.ids, index.metric, settings.threads, batch)
        systems.append(
            System(row, Timed(partial(seconds_of, shared.search, queries), queries.shape[0], batch))
        )
    return systems
