"""BM25 on captions: how well photos that somebody described are found without a model.

One caption of each photo, drawn at random, is its document, and the other captions are queries. Image to
text, that one caption stands for its photo and searches the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anserini_bridge.bm25 import Bm25Searcher, write_bm25_index
from lexlip.data import Skipped, Source
from lexlip.errors import DataError
from lexlip.indexing.bm25 import NO_CAPTION
from lexlip.machine.resources import cores
from lexlip.measure.evaluate import search_all
from lexlip.measure.pool import CaptionedPool
from lexlip.measure.recalls import Ranking, Report
from lexlip.measure.short_queries import Hits, ask, queries_of, short_captions, summary


@dataclass(frozen=True)
class Direction:
    """What searches what: texts as documents and as queries, and the ids that each query should find."""

    ids: list[str]
    documents: list[str]
    query_ids: list[str]
    queries: list[str]
    relevant: list[set[str]]


class Drawn(NamedTuple):
    """Rows of `CaptionedPool.texts`, ascending: one for each photo as its document, and all others."""

    documents: NDArray[np.int64]
    others: NDArray[np.int64]


def draw_documents(pool: CaptionedPool, rng: np.random.Generator) -> Drawn:
    """Draw a caption of each photo.

    Raises:
        DataError: no photo that is a query has a second caption.
    """
    documents = np.array([rng.choice(pool.texts_of(owner)) for owner in np.unique(pool.owners)])
    others = np.setdiff1d(np.arange(len(pool.texts)), documents)
    if not (others < pool.text_queries).any():
        raise DataError("no photo has a second caption to search with")
    return Drawn(documents, others)


def draw(pool: CaptionedPool, rng: np.random.Generator) -> tuple[Direction, Direction]:
    """Return text to image, and image to text; photos without captions are in neither.

    Raises:
        DataError: see `draw_documents`.
    """
    drawn = draw_documents(pool, rng)
    documents, others = drawn.documents, drawn.others
    queries = others[others < pool.text_queries]
    asking = np.isin(pool.owners[documents], pool.owners[queries])
    standing = documents[asking]  # they have other captions to find
    owners = pool.owners[documents]
    photos = [pool.image_ids[owner] for owner in owners]
    t2i = Direction(
        photos,
        _texts(pool, documents),
        [pool.text_ids[row] for row in queries],
        _texts(pool, queries),
        [{pool.image_ids[owner]} for owner in pool.owners[queries]],
    )
    i2t = Direction(
        [pool.text_ids[row] for row in others],
        _texts(pool, others),
        [pool.image_ids[pool.owners[row]] for row in standing],
        _texts(pool, standing),
        [
            {pool.text_ids[row] for row in pool.texts_of(pool.owners[caption]) if row != caption}
            for caption in standing
        ],
    )
    return t2i, i2t


def evaluate_bm25(
    source: Source,
    seed: int = 0,
    progress: bool = False,
    depth: int = 10,
    language: str = "en",
    queries: int | None = None,
    short: bool = True,
) -> Report:
    """Do what `lexlip.measure.evaluate.evaluate` does, without a model.

    The report counts photos that have a caption, and captions that do not stand for a photo. Photos are not
    opened; those without captions are skipped.

    Args:
        source, progress, depth, short: see `lexlip.measure.evaluate.measure`.
        seed: of the captions that are documents.
        language: of the captions, one of `anserini_bridge.bm25.LANGUAGES`.
        queries: the first so many photos are queries; None: all.

    Raises:
        DataError: no photo has a second caption.
        BridgeError: no Java (see anserini_bridge.errors).
    """
    pool = CaptionedPool.of(source, queries)
    t2i, i2t = draw(pool, np.random.default_rng(seed))
    rankings, short_queries = [], None
    for what, way in (("text to image", t2i), ("image to text", i2t)):
        with TemporaryDirectory(prefix="lexlip-") as folder:
            index = Path(folder) / "index"
            write_bm25_index(index, way.ids, way.documents, language)
            with Bm25Searcher(index, language=language) as searcher:
                search = partial(searcher.search, threads=cores())
                found, scores = search_all(search, way.queries, depth, what if progress else None)
                if short and way is t2i:
                    asked = ask(pool)
                    hits = [Hits(ids) for ids in search(queries_of(asked), 10)[0]]
                    captions = short_captions(way.queries, found, way.relevant)
                    short_queries = summary(asked, hits, captions)
        rankings.append(Ranking(way.query_ids, found, scores, way.relevant))
    skipped = [Skipped(item.id, NO_CAPTION) for item in source.items if not item.captions]
    counts = len(t2i.ids), len(i2t.ids)
    return Report.of(*counts, *rankings, short_queries=short_queries, skipped=skipped)


def _texts(pool: CaptionedPool, rows: np.ndarray) -> list[str]:
    return [pool.texts[row] for row in rows]
