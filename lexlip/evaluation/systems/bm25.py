"""BM25 on captions: what a search without a model does for photos that somebody described."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from anserini_bridge import folder_megabytes
from anserini_bridge.bm25 import Bm25Searcher, write_bm25_index
from lexlip.data.workers import cores
from lexlip.errors import DataError
from lexlip.evaluation.pool import EncodedPool
from lexlip.evaluation.speed import Timed
from lexlip.evaluation.systems.system import K, Settings, System, recall

POSTING_BYTES = 3  # two for a word's number and one for its count


def bm25(stack: ExitStack, pool: EncodedPool, settings: Settings) -> System:
    """One caption of each photo, drawn at random, is its document; the others ask.

    Image to text is that one caption, in the photo's place, against all the others. Photos without captions
    are not in this pool, nor is anything synthetic.

    Args:
        stack: closes the index.
        pool: the captions; their vectors are not used.
        settings: see `Settings`.

    Raises:
        DataError: no photo that asks has a second caption.
        BridgeError: no Java (see anserini_bridge.errors).
    """
    random = np.random.default_rng(settings.seed)
    owners = np.unique(pool.owners)
    drawn = np.array([random.choice(pool.texts_of(owner)) for owner in owners])
    others = np.setdiff1d(np.arange(len(pool.texts)), drawn)
    asking = others[others < pool.asking]
    if not len(asking):
        raise DataError("no photo has a second caption to ask with")
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="lexlip-")))
    ids = [pool.image_ids[owner] for owner in owners]
    with settings.bar("BM25 indexes", 3, "index") as bar:
        write_bm25_index(folder / "photos", ids, _texts(pool, drawn))
        bar.update()
        write_bm25_index(folder / "ids", ids, None)
        bar.update()
        write_bm25_index(folder / "captions", [pool.text_ids[row] for row in others], _texts(pool, others))
        bar.update()
    with Bm25Searcher(folder / "captions") as captions:
        i2t = _image_to_text(captions, pool, drawn, asking, settings)
    photos = stack.enter_context(Bm25Searcher(folder / "photos"))
    size = folder_megabytes(folder / "photos")
    queries = _texts(pool, random.permutation(asking))
    return System(
        name="BM25",
        documents="captions",
        items=len(ids),
        megabytes=size,
        megabytes_without_ids=size - folder_megabytes(folder / "ids"),
        item_bytes=POSTING_BYTES * photos.postings / len(ids),
        timed=Timed(lambda number: photos.seconds(queries[:number], K, settings.threads), len(queries)),
        t2i=recall(
            partial(photos.search, threads=cores()),
            _texts(pool, asking),
            [{pool.image_ids[owner]} for owner in pool.owners[asking]],
            "BM25",
            settings,
        ),
        i2t=i2t,
    )


def _image_to_text(
    captions: Bm25Searcher, pool: EncodedPool, drawn: np.ndarray, asking: np.ndarray, settings: Settings
) -> dict[str, float]:
    standing = drawn[np.isin(pool.owners[drawn], pool.owners[asking])]  # they have siblings to find
    siblings = [
        {pool.text_ids[row] for row in pool.texts_of(pool.owners[caption]) if row != caption}
        for caption in standing
    ]
    search = partial(captions.search, threads=cores())
    return recall(search, _texts(pool, standing), siblings, "BM25, image to text", settings)


def _texts(pool: EncodedPool, rows: np.ndarray) -> list[str]:
    return [pool.texts[row] for row in rows]
