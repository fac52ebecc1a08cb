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


CUTOFFS = (1, 5, 10)  # those of every report


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
class Evaluation:
    """The seconds of an evaluation: of encoding, of searching both ways, and of scoring pairs.

    Attributes:
        extrapolated: from how many photos; None if it was measured.
    """

    encode: float
    search: float = 0.0
    rerank: float = 0.0
    extrapolated: int | None = None

    @property
    def total(self) -> float:
        """All seconds."""
        return self.encode + self.search + self.rerank


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
        cutoffs: at how many hits the table shows recalls.
        t2i, i2t: recalls in percent; those of the report, if there is one, and those at the cut-offs.
        response: seconds of single queries.
        speed_up: how many times as long the cross-encoder alone takes.
        qps: queries per second.
        index: its size.
        photo_bytes: per photo in the index; with a reranker also what that has to store of a photo.
        training: cost of the model, the reranker, and the runs that they started from.
        folds: into how many parts the photos were divided; recalls are means of theirs.
        collection: which photos, if a table has several sources.
        trained_on: the photos that the model's runs were trained on.
        languages: what was measured with the captions of each language.
        queries: how many queries a pool of so many photos has.
        evaluation: what a whole evaluation takes.
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
    cutoffs: tuple[int, ...] = CUTOFFS
    t2i: Mapping[str, float] | None = None
    i2t: Mapping[str, float] | None = None
    response: Response | None = None
    speed_up: float | None = None
    qps: float | None = None
    index: IndexSize | None = None
    photo_bytes: float | None = None
    training: Training | None = None
    folds: int | None = None
    collection: str | None = None
    trained_on: str | None = None
    languages: Mapping[str, Report] | None = None
    queries: int | None = None
    evaluation: Evaluation | None = None
    skipped: Sequence[Skipped] = ()

    def __post_init__(self) -> None:
        if self.report is not None:
            for way in ("t2i", "i2t"):
                object.__setattr__(self, way, self._recalls(self.report, way))

    def _recalls(self, report: Report, way: str) -> Mapping[str, float]:
        recalls: Mapping[str, float] = getattr(report, way)
        if self.cutoffs == CUTOFFS:
            return recalls
        from lexlip.measure.recall import recall_at_k

        ranking = report.rankings[way]
        return {**recalls, **recall_at_k(ranking.found, ranking.relevant, self.cutoffs)}

    @property
    def total_seconds(self) -> float | None:
        """Of all queries, one after another."""
        if self.response is None or self.queries is None:
            return None
        return self.response.mean * self.queries

    @property
    def average_recall(self) -> float | None:
        """Mean of the recalls at the cut-offs, of both directions."""
        if self.t2i is None or self.i2t is None:
            return None
        recalls = [way[f"R@{k}"] for way in (self.t2i, self.i2t) for k in self.cutoffs]
        return sum(recalls) / len(recalls)
