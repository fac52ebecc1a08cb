"""LexLIP through Lucene, with documents cut to their heaviest words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy.sparse import csr_matrix

from anserini_bridge import ImpactSearcher, ImpactWriter, folder_megabytes, update_index
from lexlip.data.workers import cores
from lexlip.evaluation.distractors import recombined
from lexlip.evaluation.pool import Documents, EncodedPool
from lexlip.evaluation.speed import Timed
from lexlip.evaluation.systems.system import Settings, System, recall, seconds
from lexlip.search.engines import LuceneEngine, describe
from lexlip.sparse.quantize import quantize
from lexlip.sparse.topk import topk

POSTING_BYTES = 3  # two for a word's number and one for its weight
BUFFER_MB = 64.0  # of each of the indexes that are written together
OPTIMIZE_MB = 1024.0  # of one, when it is made as fast as if it had been written alone

TopK = int | None  # words that a document keeps; None: all
Cut = Callable[[csr_matrix], csr_matrix]


def impact(
    stack: ExitStack, pool: EncodedPool, words: Sequence[str], topks: Sequence[TopK], settings: Settings
) -> list[System]:
    """One system for each number of words that a document keeps, photos and captions alike.

    Args:
        stack: closes the indexes.
        pool: sparse vectors.
        words: the V words.
        topks: numbers of words that a document keeps; None keeps all.
        settings: see `Settings`.

    Raises:
        BridgeError: no Java (see anserini_bridge.errors).
    """
    cuts: dict[str, Cut] = {name_of(kept): partial(topk, k=kept) for kept in topks}
    made = (settings.synthetic, recombined)
    i2t = {}
    with TemporaryDirectory(prefix="lexlip-") as folder:
        captions = Documents(pool.text_ids, pool.captions, *made, pool.further_texts, settings.seed)
        _write(Path(folder), captions, words, cuts, settings, "LexLIP, captions")
        for name in cuts:
            with ImpactSearcher(Path(folder) / name) as searcher:
                search = LuceneEngine(searcher, threads=cores()).search
                asking, what = pool.images[pool.asking_images], f"LexLIP {name}, image to text"
                i2t[name] = recall(search, asking, pool.right_texts, what, settings)
    place = Path(stack.enter_context(TemporaryDirectory(prefix="lexlip-")))
    cuts_and_ids = {**cuts, "ids": lambda vectors: csr_matrix(vectors.shape, dtype=np.float32)}
    photos = Documents(pool.image_ids, pool.images, *made, pool.further_images, settings.seed)
    _write(place, photos, words, cuts_and_ids, settings, "LexLIP, photos")
    return [
        _system(stack.enter_context(ImpactSearcher(place / name)), pool, settings, name, i2t[name])
        for name in cuts
    ]


def _system(
    searcher: ImpactSearcher, pool: EncodedPool, settings: Settings, name: str, i2t: dict[str, float]
) -> System:
    engine = LuceneEngine(searcher, threads=cores())
    queries, size = pool.captions[: pool.asking], folder_megabytes(searcher.path)
    shuffled = engine.quantized(queries[np.random.default_rng(settings.seed).permutation(queries.shape[0])])
    search = partial(searcher.search, threads=settings.threads)
    return System(
        name="LexLIP",
        documents=name,
        items=len(searcher),
        megabytes=size,
        megabytes_without_ids=size - folder_megabytes(searcher.path.with_name("ids")),
        item_bytes=POSTING_BYTES * searcher.metadata.postings / len(searcher),
        timed=Timed(partial(seconds, search, shuffled), shuffled.shape[0]),
        t2i=recall(engine.search, queries, pool.right_images, f"LexLIP {name}, text to image", settings),
        i2t=i2t,
    )


def _write(
    folder: Path,
    documents: Documents,
    words: Sequence[str],
    cuts: Mapping[str, Cut],
    settings: Settings,
    what: str,
) -> None:
    """Writes an index for each cut to folder/NAME, all together, so that documents are made only once."""
    with ExitStack() as stack, settings.bar(what, len(documents), "document") as bar:
        writers = {
            name: stack.enter_context(
                ImpactWriter(
                    folder / name,
                    words,
                    encoder="temporary",
                    quantization=describe(settings.scheme),
                    topk=None,
                    normalize=settings.scheme == "unit",
                    memory_mb=BUFFER_MB,
                )
            )
            for name in cuts
        }
        for names, rows in documents:
            for name, writer in writers.items():
                writer.add(names, quantize(cuts[name](rows), settings.scheme))
            bar.update(len(names))
    with settings.bar(f"{what}, optimizing", len(cuts), "index") as bar:
        for name in cuts:
            with update_index(folder / name, OPTIMIZE_MB) as writer:
                writer.optimize()
            bar.update()


def name_of(kept: TopK) -> str:
    """ "all", or "top-32"."""
    return "all" if kept is None else f"top-{kept}"
