"""Table 2 of the LexLIP paper on a user's own photos: index size, speed and recall of whole systems."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from lexlip.data import Skipped, Source
from lexlip.errors import DataError
from lexlip.evaluation.pool import EncodedPool, encode_pool
from lexlip.evaluation.speed import queries_per_second
from lexlip.evaluation.systems.bm25 import bm25
from lexlip.evaluation.systems.flat import DIMENSIONS, flat, flat_without_weights
from lexlip.evaluation.systems.impact import TopK, impact
from lexlip.evaluation.systems.system import K, Settings, System
from lexlip.evaluation.tables import NONE, RECALLS
from lexlip.models.clip import Clip
from lexlip.models.lexlip import LexLIP
from lexlip.search.faiss_index import BATCH

HEADING = ["system", "documents", "MB", "no ids", "B/photo", "real", "QPS"]
HEADING += ["T2I R@1", *RECALLS[1:], "I2T R@1", *RECALLS[1:], "paper MB", "paper QPS", "paper R@1"]

SIZES = (
    "MB: the photos' index on disk; no ids: less that of the same ids alone. B/photo: by the paper's"
    " accounting, 3 bytes a word (2 for its number, 1 for its weight) and 4 a dimension; real: MB by photos."
)
UNTRAINED = (
    f"CLIP has no recall here, as no weights were given (--clip): random vectors of {DIMENSIONS} numbers, as"
    " many as CLIP ViT-B/32 has, stand for its own, and take brute force as long."
)
SYNTHETIC = (
    "Synthetic vectors are no photos. LexLIP's mix a real one that does not ask with one like it; CLIP's are"
    " drawn from a normal distribution with the mean and covariance of the real ones. They take as much room"
    " as real ones but distract less: recalls among as many real photos would be lower. Where all ask,"
    " LexLIP's mix those, and distract more."
)
LOWER_BOUND = (
    "A large pool may hold photos and captions that fit a query and are not known to: recall in it is a lower"
    " bound."
)
SOURCE = (
    "paper: its Table 2 (arXiv 2302.02908), T2I R@1 of its own model among a test set and a million further"
    " photos, on its machine."
)


@dataclass(frozen=True)
class Published:
    """Figures of the paper.

    Attributes:
        megabytes: of the index.
        qps: queries a second.
        recall: text to image, R@1 in percent; None where it is not at hand.
    """

    megabytes: float
    qps: float
    recall: float | None


PAPER = {
    ("BM25", "captions"): Published(195, 780, None),
    ("CLIP, one by one", "dense"): Published(2000, 3.60, 14.0),
    ("LexLIP", "all"): Published(152, 19.7, 48.6),
    ("LexLIP", "top-64"): Published(114, 63, 47.6),
    ("LexLIP", "top-32"): Published(71, 249, 42.0),
    ("LexLIP", "top-16"): Published(47, 610, 28.3),
    ("LexLIP", "top-12"): Published(41, 797, 22.3),
    ("LexLIP", "top-8"): Published(34, 985, 14.6),
}
"""By system and what it keeps of a photo (arXiv 2302.02908, Table 2)."""


@dataclass(frozen=True)
class Row:
    """One line of the table; `system` is None where it could not be had, and `qps` until it is timed."""

    name: str
    documents: str
    system: System | None = None
    qps: float | None = None

    @property
    def paper(self) -> Published | None:
        return PAPER.get((self.name, self.documents))

    def to_dict(self) -> dict[str, Any]:
        system = self.system
        return {
            "system": self.name,
            "documents": self.documents,
            "photos": system and system.items,
            "megabytes": system and system.megabytes,
            "megabytes_without_ids": system and system.megabytes_without_ids,
            "photo_bytes_by_the_papers_accounting": system and system.item_bytes,
            "photo_bytes": system and 1e6 * system.megabytes / system.items,
            "qps": self.qps,
            "t2i": system and system.t2i,
            "i2t": system and system.i2t,
            "paper": self.paper and vars(self.paper),
        }


@dataclass(frozen=True)
class Table2:
    """Rows, what is to be known about them, and photos that could not be read."""

    rows: list[Row]
    notes: list[str]
    skipped: list[Skipped]


def table2(
    model: LexLIP,
    queries: Source,
    pool: Sequence[Source],
    clip: Clip | None,
    topks: Sequence[TopK],
    settings: Settings,
    rounds: int = 5,
    workers: int = 2,
) -> Table2:
    """Builds every system on one pool of photos, and measures it.

    Args:
        model: LexLIP's encoders.
        queries: photos with captions, which ask for each other.
        pool: further photos to search among.
        clip: the dense model; None gives the size and speed of brute force only.
        topks: words that a LexLIP document keeps, a row each; None keeps all.
        settings: how they are measured.
        rounds: of the measurement of speed.
        workers: threads that decode photos.

    Raises:
        DataError: no photo of the queries that can be read has a caption.
        BridgeError: no Java (see anserini_bridge.errors).
    """
    progress = settings.progress
    sparse = encode_pool(model, queries, pool, workers, "LexLIP:" if progress else None)
    dense = None
    if clip is not None:
        dense = encode_pool(clip, queries, pool, workers, "CLIP:" if progress else None)
    with ExitStack() as stack:
        captions, why_no_bm25 = _bm25(stack, sparse, settings)
        vectors, why_no_clip = _clip(sparse, dense, settings)
        rows = [*captions, *vectors]
        rows += _rows(impact(stack, sparse, model.vocabulary.words, topks, settings))
        timed = [row.system.timed for row in rows if row.system is not None]
        rates = iter(queries_per_second(timed, rounds, progress=progress))
        rows = [row if row.system is None else replace(row, qps=next(rates)) for row in rows]
    notes = [*_conditions(queries.name, sparse, settings, rounds), why_no_bm25 or _about_bm25(captions[0])]
    notes += [note for note in (why_no_clip, SYNTHETIC if settings.synthetic else None) if note is not None]
    return Table2(rows, [*notes, LOWER_BOUND, SOURCE], sparse.skipped)


def _bm25(stack: ExitStack, pool: EncodedPool, settings: Settings) -> tuple[list[Row], str | None]:
    """Its row, and why it is empty."""
    try:
        return _rows([bm25(stack, pool, settings)]), None
    except DataError as error:
        return [Row("BM25", "captions")], f"BM25 cannot be measured: {error}."


def _clip(sparse: EncodedPool, dense: EncodedPool | None, settings: Settings) -> tuple[list[Row], str | None]:
    """Its rows, and why something is missing there."""
    if dense is not None:
        return _rows(flat(dense, settings)), None
    return _rows(flat_without_weights(sparse.image_ids, sparse.asking, settings)), UNTRAINED


def _rows(systems: Sequence[System]) -> list[Row]:
    return [Row(system.name, system.documents, system) for system in systems]


def _conditions(queries: str, pool: EncodedPool, settings: Settings, rounds: int) -> list[str]:
    synthetic = f", and {settings.synthetic:,} synthetic vectors beside each" if settings.synthetic else ""
    return [
        f"Measured with the {len(pool.asking_images):,} photos and {pool.asking:,} captions of {queries} in a"
        f" pool of {len(pool.image_ids):,} photos and {len(pool.texts):,} captions{synthetic}.",
        SIZES,
        f"QPS: text to image, {K} hits, encoded queries, threads: {settings.threads}; the median of {rounds}"
        f" rounds in which all take turns. Faiss scores queries one by one, as in the paper, or {BATCH}"
        " together; Lucene answers one after another. BM25's time includes splitting texts.",
    ]


def _about_bm25(row: Row) -> str:
    assert row.system is not None
    return (
        f"BM25: one caption of a photo, drawn at random, is its document, the {row.system.timed.queries:,}"
        " others ask; the photo's own query is that caption too. Photos without captions and synthetic ones"
        f" cannot be in its pool, which has {row.system.items:,}."
    )


def cells(rows: Sequence[Row]) -> list[list[str]]:
    """The table as text, its heading first."""
    return [HEADING, *map(_cells, rows)]


def _cells(row: Row) -> list[str]:
    system, paper = row.system, row.paper
    measured = [NONE] * 11
    if system is not None:
        measured = [
            *(_figure(size) for size in (system.megabytes, system.megabytes_without_ids)),
            *(f"{size:.0f}" for size in (system.item_bytes, 1e6 * system.megabytes / system.items)),
            _figure(row.qps),
            *(NONE if way is None else f"{way[k]:.1f}" for way in (system.t2i, system.i2t) for k in RECALLS),
        ]
    published = [NONE] * 3
    if paper is not None:
        published = [_figure(paper.megabytes), _figure(paper.qps), _figure(paper.recall)]
    return [row.name, row.documents, *measured, *published]


def _figure(number: float | None) -> str:
    """Three digits, or all before the point."""
    if number is None:
        return NONE
    return f"{number:,.0f}" if number >= 99.95 else f"{number:.1f}" if number >= 9.995 else f"{number:.2f}"
