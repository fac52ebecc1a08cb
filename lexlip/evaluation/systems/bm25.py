"""BM25 on captions, as a system of the table; see `lexlip.evaluation.bm25`."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from anserini_bridge import folder_megabytes
from anserini_bridge.bm25 import Bm25Searcher, write_bm25_index
from lexlip.data.workers import cores
from lexlip.evaluation.bm25 import Direction, draw
from lexlip.evaluation.pool import CaptionPool
from lexlip.evaluation.speed import Timed
from lexlip.evaluation.systems.system import K, Settings, System, recall

POSTING_BYTES = 3  # two for a word's number and one for its count


def bm25(stack: ExitStack, pool: CaptionPool, settings: Settings) -> System:
    """One caption of each photo is its document; the others ask.

    Photos without captions are not in this pool, nor is anything synthetic.

    Args:
        stack: closes the index.
        pool: the captions.
        settings: see `Settings`.

    Raises:
        DataError: no photo that asks has a second caption.
        BridgeError: no Java (see anserini_bridge.errors).
    """
    random = np.random.default_rng(settings.seed)
    t2i, i2t = draw(pool, random)
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="lexlip-")))
    with settings.bar("BM25 indexes", 3, "index") as bar:
        for name, ids, texts in (
            ("photos", t2i.ids, t2i.documents),
            ("ids", t2i.ids, None),
            ("captions", i2t.ids, i2t.documents),
        ):
            write_bm25_index(folder / name, ids, texts)
            bar.update()
    with Bm25Searcher(folder / "captions") as captions:
        recalls = _recall(captions, i2t, "BM25, image to text", settings)
    photos = stack.enter_context(Bm25Searcher(folder / "photos"))
    size = folder_megabytes(folder / "photos")
    queries = [t2i.queries[row] for row in random.permutation(len(t2i.queries))]
    return System(
        name="BM25",
        documents="captions",
        items=len(t2i.ids),
        megabytes=size,
        megabytes_without_ids=size - folder_megabytes(folder / "ids"),
        item_bytes=POSTING_BYTES * photos.postings / len(t2i.ids),
        timed=Timed(lambda number: photos.seconds(queries[:number], K, settings.threads), len(queries)),
        t2i=_recall(photos, t2i, "BM25", settings),
        i2t=recalls,
    )


def _recall(searcher: Bm25Searcher, way: Direction, what: str, settings: Settings) -> dict[str, float]:
    search = partial(searcher.search, threads=cores())
    return recall(search, way.queries, way.relevant, what, settings)
