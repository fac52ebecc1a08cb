"""Dense vectors by brute force, as the paper searches with CLIP."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy.sparse import csr_matrix

from anserini_bridge import folder_megabytes
from lexlip.data.workers import cores
from lexlip.evaluation.distractors import gaussian
from lexlip.evaluation.pool import Documents, EncodedPool
from lexlip.evaluation.speed import Timed
from lexlip.evaluation.systems.system import Settings, System, recall, seconds
from lexlip.models.encoder import Metric
from lexlip.search.faiss_index import BATCH, IDS, FaissIndex, make_faiss

FLOAT_BYTES = 4
DIMENSIONS = 512  # dimensions of CLIP ViT-B/32


def flat(pool: EncodedPool, settings: Settings) -> list[System]:
    """CLIP in Faiss, scored one query at a time and many together.

    Args:
        pool: dense vectors.
        settings: see `Settings`.
    """
    asking = pool.images[pool.asking_images]
    captions = _engine(pool.text_ids, pool.captions, pool.metric, settings, "CLIP, captions")
    i2t = recall(captions.search, asking, pool.right_texts, "CLIP, image to text", settings)
    del captions  # its memory is needed for the photos
    photos = _engine(pool.image_ids, pool.images, pool.metric, settings, "CLIP, photos")
    queries = pool.captions[: pool.asking]
    t2i = recall(photos.search, queries, pool.right_images, "CLIP, text to image", settings)
    return _systems(photos, queries, settings, t2i, i2t)


def flat_without_weights(ids: Sequence[str], queries: int, settings: Settings) -> list[System]:
    """The same with random vectors of CLIP ViT-B/32's size, to which brute force takes as long.

    Args:
        ids: of the photos.
        queries: how many random ones to time with.
        settings: see `Settings`.
    """
    random = np.random.default_rng(settings.seed)
    vectors, asking = (
        csr_matrix(random.standard_normal((rows, DIMENSIONS), dtype=np.float32))
        for rows in (len(ids), queries)
    )
    return _systems(_engine(ids, vectors, "cosine", settings, "CLIP, photos"), asking, settings)


def _engine(
    ids: Sequence[str], vectors: csr_matrix, metric: Metric, settings: Settings, what: str
) -> FaissIndex:
    documents = Documents(ids, vectors, settings.synthetic, gaussian, vectors, settings.seed)
    engine = FaissIndex(make_faiss(vectors.shape[1]), (), metric, cores(), BATCH)
    with settings.bar(what, len(documents), "document") as bar:
        for names, rows in documents:
            engine.add(names, rows)
            bar.update(len(names))
    return engine


def _systems(
    engine: FaissIndex,
    queries: csr_matrix,
    settings: Settings,
    t2i: dict[str, float] | None = None,
    i2t: dict[str, float] | None = None,
) -> list[System]:
    with TemporaryDirectory(prefix="lexlip-") as folder:
        engine.save(Path(folder))
        size, ids = folder_megabytes(Path(folder)), (Path(folder) / IDS).stat().st_size / 1e6
    queries = queries[np.random.default_rng(settings.seed).permutation(queries.shape[0])]
    return [
        System(
            name=f"CLIP, {how}",
            documents="dense",
            items=len(engine),
            megabytes=size,
            megabytes_without_ids=size - ids,
            item_bytes=FLOAT_BYTES * queries.shape[1],
            timed=Timed(
                partial(seconds, _shared(engine, settings.threads, batch).search, queries),
                queries.shape[0],
                batch,
            ),
            t2i=t2i,
            i2t=i2t,
        )
        for how, batch in (("one by one", 1), (f"{BATCH} together", BATCH))
    ]


def _shared(engine: FaissIndex, threads: int, batch: int) -> FaissIndex:
    """The same documents for another number of threads, and of queries at a time."""
    return FaissIndex(engine.vectors, engine.ids, engine.metric, threads, batch)
