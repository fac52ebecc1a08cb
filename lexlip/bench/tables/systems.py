"""Whole systems on one pool of photos: BM25 on captions, CLIP by brute force, LexLIP through Lucene."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from anserini_bridge import ImpactSearcher, folder_megabytes, update_index
from anserini_bridge.bm25 import Bm25Searcher, write_bm25_index
from lexlip.bench.clocks import Timed, queries_per_second
from lexlip.bench.distractors import Documents, gaussian, recombined
from lexlip.bench.tables.first_stages import TableSettings, topk_name
from lexlip.bench.tables.row import IndexSize, Row
from lexlip.bench.tables.table import Table
from lexlip.data import Source
from lexlip.data.source import Concat
from lexlip.errors import DataError
from lexlip.machine.resources import cores
from lexlip.measure.bm25_recall import Direction, draw, draw_documents
from lexlip.measure.evaluate import search_all
from lexlip.measure.pool import CaptionedPool, PoolVectors, encode_pool
from lexlip.measure.recalls import recall_at_k
from lexlip.models.lexlip import LexLIP
from lexlip.models.pretrained import Pretrained
from lexlip.registry import Metric
from lexlip.search.engines.faiss_index import BATCH, IDS, FaissIndex, make_faiss
from lexlip.search.engines.lucene import Cut, LuceneEngine, write_impacts
from lexlip.sparse.balance import Bank, as_documents
from lexlip.sparse.quantize import Scheme

K = 10  # hits of a query
FLOAT_BYTES = 4
DIMENSIONS = 512  # of a vector of CLIP ViT-B/32
POSTING_BYTES = 3  # the paper's accounting: two for a word's number and one for its weight
BUFFER_MB = 64.0  # for each of the indexes that are written together
OPTIMIZE_MB = 1024.0  # for one index, while it is made as fast as if it had been written alone

SIZES = (
    "MB: the photos' index on disk; no ids: minus that of the same ids alone. B/photo: by the paper's"
    " accounting, 3 bytes a word (2 for its number, 1 for its weight) and 4 a dimension; real: MB by photos."
)
UNTRAINED = (
    f"CLIP has no recall here, as no weights were given (--clip): random vectors of {DIMENSIONS} numbers, as"
    " many as CLIP ViT-B/32 has, replace its own; brute force takes as long with them."
)
SYNTHETIC = (
    "Synthetic vectors are not photos. LexLIP's mix a real one that is not a query with a similar one; CLIP's"
    " are drawn from a normal distribution with the mean and covariance of the real ones. They take as much"
    " room as real ones but distract less: recalls among as many real photos would be lower. If all photos"
    " are queries, LexLIP's mix those, and distract more."
)
LOWER_BOUND = (
    "A large pool may hold photos and captions that fit a query without being marked as such: recall in it is"
    " a lower bound."
)


class System(NamedTuple):
    """A row without its speed, and what to time for it; None if the system could not be measured."""

    row: Row
    timed: Timed | None


def recall_of(
    search: Callable[[Any, int], tuple[list[list[str]], Any]],
    queries: Any,
    relevant: Sequence[Collection[str]],
    what: str,
    settings: TableSettings,
) -> dict[str, float]:
    """Return the recalls of an engine's `search`; `what` is what the progress bar says."""
    found, _ = search_all(search, queries, K, what if settings.progress else None)
    return recall_at_k(found, relevant)


def seconds_of(search: Callable[[Any, int], object], queries: Any, number: int) -> float:
    """Return how long an engine takes for the first so many queries."""
    first = queries[:number]
    started = time.perf_counter()
    search(first, K)
    return time.perf_counter() - started


def measure_systems(
    table: Table,
    model: LexLIP,
    clip: Pretrained | None,
    queries: Source,
    others: Sequence[Source],
    settings: TableSettings,
) -> tuple[list[Row], list[str]]:
    """Build every system on one pool of photos, and measure it.

    Args:
        table: which one.
        model: LexLIP's encoders; `settings.topks` gives its rows.
        clip: the dense model; None gives only the size and speed of brute force.
        queries: photos with captions, which search for each other.
        others: further photos to search among.
        settings: how they are measured.

    Returns:
        The rows, and notes on how they were measured.

    Raises:
        DataError: no photo of the queries that can be read has a caption.
        BridgeError: no Java (see anserini_bridge.errors).
    """
    source = Concat([queries, *others])
    encode = partial(encode_pool, source=source, workers=settings.workers, queries=len(queries))
    sparse = encode(model, progress="LexLIP:" if settings.progress else None)
    dense = None
    if clip is not None:
        dense = encode(clip, progress="CLIP:" if settings.progress else None)
    notes = [_conditions(queries.name, sparse.pool, settings), SIZES, _speed(settings)]
    with ExitStack() as stack:
        try:
            systems = [bm25(stack, sparse.pool, settings)]
            same = draw_documents(sparse.pool, np.random.default_rng(settings.seed)).others
            notes.append(_about_bm25(systems[0]))
            sparse = sparse.part(same)
            dense = dense and dense.part(same)
        except DataError as error:
            systems = [System(Row(model="BM25", documents="captions"), None)]
            notes.append(f"BM25 cannot be measured: {error}; the other systems ask with all captions.")
        if dense is None:
            systems += flat_without_weights(sparse.pool, settings)
            notes.append(UNTRAINED)
        else:
            systems += flat(dense, settings)
        systems += impact(stack, sparse, model.vocabulary.words, settings)
        timed = [system.timed for system in systems if system.timed is not None]
        rates = iter(queries_per_second(timed, settings.rounds, progress=settings.progress))
        rows = [
            row if timed is None else replace(row, qps=next(rates), skipped=sparse.pool.skipped)
            for row, timed in systems
        ]
    if settings.synthetic:
        notes.append(SYNTHETIC)
    return rows, [*notes, LOWER_BOUND, str(table.paper)]


# ---- BM25 ----


def bm25(stack: ExitStack, pool: CaptionedPool, settings: TableSettings) -> System:
    """One caption of each photo is its document; the others are queries.

    Photos without captions are not in this pool, nor is anything synthetic.

    Raises:
        DataError: no photo that is a query has a second caption.
    """
    rng = np.random.default_rng(settings.seed)
    t2i, i2t = draw(pool, rng)
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="lexlip-")))
    with settings.bar("BM25 indexes", 3, "index") as bar:
        for name, ids, texts in (
            ("photos", t2i.ids, t2i.documents),
            ("ids", t2i.ids, None),
            ("captions", i2t.ids, i2t.documents),
        ):
            write_bm25_index(folder / name, ids, texts)
            bar.update()

    def recall(searcher: Bm25Searcher, way: Direction, what: str) -> dict[str, float]:
        return recall_of(partial(searcher.search, threads=cores()), way.queries, way.relevant, what, settings)

    with Bm25Searcher(folder / "captions") as captions:
        of_captions = recall(captions, i2t, "BM25, image to text")
    photos = stack.enter_context(Bm25Searcher(folder / "photos"))
    size = folder_megabytes(folder / "photos")
    row = Row(
        model="BM25",
        documents="captions",
        photos=len(t2i.ids),
        index=IndexSize(
            megabytes=size,
            megabytes_without_ids=size - folder_megabytes(folder / "ids"),
            accounted=POSTING_BYTES * photos.postings / len(t2i.ids),
        ),
        photo_bytes=1e6 * size / len(t2i.ids),
        t2i=recall(photos, t2i, "BM25"),
        i2t=of_captions,
    )
    queries = [t2i.queries[at] for at in rng.permutation(len(t2i.queries))]
    return System(
        row, Timed(lambda number: photos.seconds(queries[:number], K, settings.threads), len(queries))
    )


# ---- CLIP ----


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


# ---- LexLIP ----


def impact(
    stack: ExitStack, vectors: PoolVectors, words: Sequence[str], settings: TableSettings
) -> list[System]:
    """LexLIP through Lucene: one system for each number of words that a document keeps."""
    pool, scheme = vectors.pool, settings.scheme_of(vectors.model)
    of_photos, of_captions = (
        {topk_name(kept): _cut(kept, scheme, bank) for kept in settings.topks}
        for bank in vectors.model.balance or (None, None)
    )
    synthetic = (settings.synthetic, recombined)
    i2t = {}
    with TemporaryDirectory(prefix="lexlip-") as place:
        captions = Documents(
            pool.text_ids, vectors.captions, *synthetic, vectors.other_captions, settings.seed
        )
        _write(Path(place), captions, words, of_captions, scheme, settings, "LexLIP, captions")
        for name in of_captions:
            with ImpactSearcher(Path(place) / name) as searcher:
                search, what = LuceneEngine(searcher, threads=cores()).search, f"LexLIP {name}, image to text"
                i2t[name] = recall_of(search, vectors.query_images, pool.relevant_texts, what, settings)
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="lexlip-")))
    cuts_and_ids = {**of_photos, "ids": lambda rows: csr_matrix(rows.shape, dtype=np.float32)}
    photos = Documents(pool.image_ids, vectors.images, *synthetic, vectors.other_images, settings.seed)
    _write(folder, photos, words, cuts_and_ids, scheme, settings, "LexLIP, photos")
    return [
        _impact_system(stack.enter_context(ImpactSearcher(folder / name)), vectors, settings, name, i2t[name])
        for name in of_photos
    ]


def _cut(kept: int | None, scheme: Scheme, bank: Bank | None) -> Cut:
    return lambda rows: as_documents(rows, kept, scheme, bank)


def _impact_system(
    searcher: ImpactSearcher, vectors: PoolVectors, settings: TableSettings, name: str, i2t: dict[str, float]
) -> System:
    engine = LuceneEngine(searcher, threads=cores())
    queries, size = vectors.query_captions(), folder_megabytes(searcher.path)
    order = np.random.default_rng(settings.seed).permutation(queries.shape[0])
    shuffled = engine.quantized(queries[order]).csr()
    what = f"LexLIP {name}, text to image"
    row = Row(
        model="LexLIP",
        documents=name,
        photos=len(searcher),
        index=IndexSize(
            megabytes=size,
            megabytes_without_ids=size - folder_megabytes(searcher.path.with_name("ids")),
            accounted=POSTING_BYTES * searcher.metadata.postings / len(searcher),
        ),
        photo_bytes=1e6 * size / len(searcher),
        t2i=recall_of(engine.search, queries, vectors.pool.relevant_images, what, settings),
        i2t=i2t,
    )
    search = partial(searcher.search, threads=settings.threads)
    return System(row, Timed(partial(seconds_of, search, shuffled), shuffled.shape[0]))


def _write(
    folder: Path,
    documents: Documents,
    words: Sequence[str],
    cuts: dict[str, Cut],
    scheme: Scheme,
    settings: TableSettings,
    what: str,
) -> None:
    """Write an index for each cut to folder/NAME, and make each as fast as if it had been written alone."""
    with settings.bar(what, len(documents), "document") as bar:
        places = {folder / name: cut for name, cut in cuts.items()}
        write_impacts(places, words, documents, scheme, BUFFER_MB, bar)
    with settings.bar(f"{what}, optimizing", len(cuts), "index") as bar:
        for name in cuts:
            with update_index(folder / name, OPTIMIZE_MB) as writer:
                writer.optimize()
            bar.update()


# ---- notes ----


def _conditions(queries: str, pool: CaptionedPool, settings: TableSettings) -> str:
    synthetic = f", and {settings.synthetic:,} synthetic vectors beside each" if settings.synthetic else ""
    return (
        f"Measured with the {len(pool.image_queries):,} photos and {pool.text_queries:,} captions of"
        f" {queries} in a pool of {len(pool.image_ids):,} photos and {len(pool.texts):,} captions{synthetic}."
    )


def _speed(settings: TableSettings) -> str:
    return (
        f"QPS: text to image, {K} hits, encoded queries, threads: {settings.threads}; the median of"
        f" {settings.rounds} rounds in which all take turns. Faiss scores queries one by one, as in the"
        f" paper, or {BATCH} together; Lucene answers one after another. BM25's time includes splitting"
        " texts."
    )


def _about_bm25(system: System) -> str:
    assert system.timed is not None
    return (
        f"BM25: one caption of a photo, drawn at random, is its document, the {system.timed.queries:,} others"
        " are queries; the photo's own query is that caption too. The other systems ask with the same"
        f" {system.timed.queries:,} captions, as in the paper; the drawn ones are not searched either. Photos"
        f" without captions and synthetic ones cannot be in BM25's pool, which has {system.row.photos:,}."
    )
