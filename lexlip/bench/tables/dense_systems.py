"""A dense model in Faiss: by brute force, through a graph, and with compressed vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, vstack

from anserini_bridge import folder_megabytes
from lexlip.bench.clocks import Timed
from lexlip.bench.distractors import Documents, gaussian
from lexlip.bench.tables.first_stages import TableSettings
from lexlip.bench.tables.row import IndexSize, Row
from lexlip.bench.tables.system import System, recall_of, seconds_of
from lexlip.machine.resources import cores
from lexlip.measure.pool import CaptionedPool, PoolVectors
from lexlip.registry import Metric
from lexlip.search.engines.faiss_index import (
    BATCH,
    IDS,
    NPROBE,
    PQ_CENTRES,
    SAMPLE,
    FaissIndex,
    lists_for,
    make_faiss,
    make_int8,
    make_lists,
)

FLOAT_BYTES = 4
DIMENSIONS = 512  # of a vector of CLIP ViT-B/32
CLIP = "CLIP"  # the dense model of the paper

SEARCHES = (
    f"Faiss: brute force scores queries one by one, as in the paper, or {BATCH} together; int8 keeps 8 bits a"
    f" dimension. HNSW is the graph of `lexlip index --ann hnsw`. IVF-PQ keeps the nearest of {PQ_CENTRES}"
    f" centres for each of at most 64 parts of a vector, and reads {NPROBE} lists of vectors."
)
UNTRAINED = (
    f"{CLIP} has no recall here, as no dense model was given (--dense): random vectors of {DIMENSIONS}"
    " numbers, as many as CLIP ViT-B/32 has, replace its own; brute force takes as long with them."
)


class Form(NamedTuple):
    """How Faiss keeps vectors, and the ways in which they are searched."""

    documents: str  # what is kept of a photo
    make: Callable[[int, int], Any]  # an empty index, by dimensions and number of documents
    ways: dict[str, int]  # by what a row says after the model's name, how many queries are scored together
    learns_from: int = 0  # vectors at least; 0: it does not learn
    accounted: bool = False  # in the LexLIP paper's accounting of bytes


BRUTE_FORCE = Form(
    "dense",
    lambda dimensions, _: make_faiss(dimensions),
    {"one by one": 1, f"{BATCH} together": BATCH},
    accounted=True,
)
FORMS = (
    BRUTE_FORCE,
    Form("int8", lambda dimensions, _: make_int8(dimensions), {"one by one": 1}, learns_from=1),
    Form("dense", lambda dimensions, _: make_faiss(dimensions, "hnsw"), {"HNSW": 1}),
    Form("PQ", partial(make_lists, codes="PQ"), {"IVF-PQ": 1}, learns_from=PQ_CENTRES),
)


def dense_systems(vectors: PoolVectors, settings: TableSettings) -> tuple[list[System], list[str]]:
    """Measure a model's vectors in each form; also return notes on how, and on what is left out."""
    pool = vectors.pool
    systems: list[System] = []
    notes = [SEARCHES]
    for form in FORMS:
        if min(len(pool.image_ids), len(pool.text_ids)) + settings.synthetic < form.learns_from:
            notes.append(
                f"{', '.join(form.ways)} is left out: it learns from {form.learns_from} photos and as many"
                " captions at least."
            )
        else:
            systems += _in_form(form, vectors, settings)
    return systems, notes


def without_weights(pool: CaptionedPool, settings: TableSettings) -> tuple[list[System], list[str]]:
    """Measure brute force with random vectors of the size of CLIP ViT-B/32's; also return a note on them."""
    rng = np.random.default_rng(settings.seed)
    vectors, queries = (
        csr_matrix(rng.standard_normal((rows, DIMENSIONS), dtype=np.float32))
        for rows in (len(pool.image_ids), pool.text_queries)
    )
    photos = _faiss(BRUTE_FORCE, pool.image_ids, vectors, "cosine", settings, f"{CLIP}, photos")
    return _systems(BRUTE_FORCE, CLIP, photos, queries, settings), [UNTRAINED]


def _in_form(form: Form, vectors: PoolVectors, settings: TableSettings) -> list[System]:
    pool, model = vectors.pool, vectors.model
    what = f"{model.name}, {next(iter(form.ways))}"
    captions = _faiss(form, pool.text_ids, vectors.captions, model.metric, settings, f"{what}, captions")
    i2t = recall_of(
        captions.search, vectors.query_images, pool.relevant_texts, f"{what}, image to text", settings
    )
    del captions  # its memory is needed for the photos
    photos = _faiss(form, pool.image_ids, vectors.images, model.metric, settings, f"{what}, photos")
    queries = vectors.query_captions()
    t2i = recall_of(photos.search, queries, pool.relevant_images, f"{what}, text to image", settings)
    return _systems(form, model.name, photos, queries, settings, t2i, i2t)


def _faiss(
    form: Form, ids: Sequence[str], vectors: csr_matrix, metric: Metric, settings: TableSettings, what: str
) -> FaissIndex:
    documents = Documents(ids, vectors, settings.synthetic, gaussian, vectors, settings.seed)
    index = FaissIndex(form.make(vectors.shape[1], len(documents)), (), metric, cores(), BATCH)
    if form.learns_from:
        index.learn(_first(documents, SAMPLE * lists_for(len(documents))))
    with settings.bar(what, len(documents), "document") as bar:
        for names, rows in documents:
            index.add(names, rows)
            bar.update(len(names))
    return index


def _first(documents: Documents, number: int) -> csr_matrix:
    """Return the first so many vectors, [n, D], or all."""
    chunks, there = [], 0
    for _, rows in documents:
        chunks.append(rows[: number - there])
        there += rows.shape[0]
        if there >= number:
            break
    return vstack(chunks, format="csr")


def _systems(
    form: Form,
    name: str,
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
    for how, batch in form.ways.items():
        row = Row(
            model=f"{name}, {how}",
            counterpart=f"{CLIP}, {how}",
            documents=form.documents,
            photos=len(index),
            index=IndexSize(
                megabytes=size,
                megabytes_without_ids=size - ids,
                accounted=FLOAT_BYTES * queries.shape[1] if form.accounted else None,
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
