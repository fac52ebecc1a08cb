"""One line of a table, of whichever paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lexlip.bench.response import Response
    from lexlip.data import Skipped
    from lexlip.measure.evaluate import Report
    from lexlip.search.fusion import Fusion
    from lexlip.training.run_folder import Training


@dataclass(frozen=True, kw_only=True)
class IndexSize:
    """The size of an index of photos.

    Attributes:
        megabytes: on disk with ids, in 10^6 bytes.
        megabytes_without_ids: minus those of an index of the same ids alone.
        accounted: bytes of a photo by the LexLIP paper's accounting.
    """

    megabytes: float
    megabytes_without_ids: float
    accounted: float


@dataclass(frozen=True, kw_only=True)
class Row:
    """A model or a system, and what was measured of it; what a table does not show is None.

    Attributes:
        model: as the user named it, or the system's name.
        documents: what is kept of a photo: "top-32", "all", "dense", "captions", or "pairs".
        photos: among which photos are found; None if the system could not be measured.
        method: how a run differs from the full method.
        reranker: as the user named it.
        k, fusion: how it reranks.
        report: what `lexlip evaluate` measures.
        t2i, i2t: recalls in percent; those of the report, if there is one.
        response: seconds of single queries.
        speed_up: how many times as long the cross-encoder alone takes.
        qps: queries per second.
        index: its size.
        photo_bytes: per photo in the index; with a reranker also what that has to store of a photo.
        training: cost of the model, the reranker, and the runs that they started from.
        skipped: photos that could not be read.
    """

    model: str
    documents: str
    photos: int | None = None
    method: str | None = None
    reranker: str | None = None
    k: int | None = None
    fusion: Fusion | None = None
    report: Report | None = None
    t2i: Mapping[str, float] | None = None
    i2t: Mapping[str, float] | None = None
    response: Response | None = None
    speed_up: float | None = None
    qps: float | None = None
    index: IndexSize | None = None
    photo_bytes: float | None = None
    training: Training | None = None
    skipped: Sequence[Skipped] = ()

    def __post_init__(self) -> None:
        if self.report is not None:
            object.__setattr__(self, "t2i", self.report.t2i)
            object.__setattr__(self, "i2t", self.report.i2t)
