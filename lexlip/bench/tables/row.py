"""A line of a table: one that was measured, or one that a paper prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lexlip.bench.response import Response
    from lexlip.data import Skipped
    from lexlip.measure.recalls import Report
    from lexlip.search.hybrid import Fusion
    from lexlip.training.run_folder import Training


CUTOFFS = (1, 5, 10)  # those of every report
T2I = ("t2i R@1", "t2i R@5", "t2i R@10")
I2T = ("i2t R@1", "i2t R@5", "i2t R@10")
"""Keys of recalls; the papers call the first image retrieval and the second text retrieval."""


@dataclass(frozen=True, kw_only=True)
class IndexSize:
    """The size of an index of photos."""

    megabytes: float  # on disk with ids, in 10^6 bytes
    megabytes_without_ids: float  # minus those of an index of the same ids alone
    accounted: float | None  # bytes of a photo by the LexLIP paper's accounting; None: it has none of such


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The seconds of an evaluation: of encoding, of searching both ways, and of scoring pairs."""

    encode: float
    search: float = 0.0
    rerank: float = 0.0
    extrapolated: int | None = None  # from how many photos; None if it was measured

    @property
    def total(self) -> float:
        """All seconds."""
        return self.encode + self.search + self.rerank


@dataclass(frozen=True, kw_only=True)
class Row:
    """A model or a system of any paper, and what was measured of it; what a table does not show is None."""

    model: str  # as the user named it, or the system's name
    documents: str  # what is kept of a photo: "top-32", "all", "dense", "int8", "PQ", "captions", or "pairs"
    counterpart: str | None = None  # what the paper calls the system, if that is not its name here
    photos: int | None = None  # among which photos are found; None if the system could not be measured
    method: str | None = None  # how a run differs from the full method
    reranker: str | None = None  # as the user named it
    k: int | None = None  # how many hits it reranks
    fusion: Fusion | None = None
    report: Report | None = None  # what `lexlip evaluate` measures
    cutoffs: tuple[int, ...] = CUTOFFS  # at how many hits the table shows recalls
    t2i: Mapping[str, float] | None = None  # recalls in percent; those of a report, and those at the cut-offs
    i2t: Mapping[str, float] | None = None
    response: Response | None = None  # seconds of single queries
    speed_up: float | None = None  # how many times as long the cross-encoder alone takes
    qps: float | None = None  # queries per second
    index: IndexSize | None = None
    photo_bytes: float | None = None  # in the index; with a reranker also what that stores of a photo
    training: Training | None = None  # of the model, the reranker, and the runs that they started from
    folds: int | None = None  # parts into which the photos were divided; recalls are means of theirs
    collection: str | None = None  # which photos, if a table has several sources
    trained_on: str | None = None  # the photos that the model's runs were trained on
    languages: Mapping[str, Report] | None = None  # with the captions of each language
    queries: int | None = None  # how many a pool of so many photos has
    evaluation: Evaluation | None = None  # what a whole evaluation takes
    skipped: Sequence[Skipped] = ()  # photos that could not be read
    runs: Sequence[Row] = ()  # of which this one shows the mean and the deviation; empty: it is one itself

    def __post_init__(self) -> None:
        if self.report is not None:
            for way in ("t2i", "i2t"):
                object.__setattr__(self, way, self._recalls(self.report, way))

    def _recalls(self, report: Report, way: str) -> Mapping[str, float]:
        recalls: Mapping[str, float] = getattr(report, way)
        if self.cutoffs == CUTOFFS:
            return recalls
        from lexlip.measure.recalls import recall_at_k

        ranking = report.rankings[way]
        return {**recalls, **recall_at_k(ranking.found, ranking.relevant, self.cutoffs)}

    @property
    def in_paper(self) -> tuple[str, str]:
        """The key of the paper's own figures: the system, and what it keeps of a photo."""
        return self.counterpart or self.model, self.documents

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

    def to_dict(self) -> dict[str, Any]:
        """Return the row of a table of stages as `--json` prints it."""
        return {
            "model": self.model,
            "method": self.method,
            "rerank": self.reranker,
            "k": self.k,
            "fusion": self.fusion,
            "documents": self.documents,
            "photos": self.photos,
            "t2i": self.t2i,
            "i2t": self.i2t,
            "mean_recall": self.report and self.report.mean_recall,
            "seconds": self.response and self.response.to_dict(),
            "speed_up": self.speed_up,
            "photo_bytes": self.photo_bytes,
            "training_minutes": self.training and self.training.minutes,
            "training_steps": self.training and self.training.steps,
            "average_recall": self.average_recall,
            "folds": self.folds,
            "collection": self.collection,
            "trained_on": self.trained_on,
            "languages": self.languages
            and {
                language: {"t2i": report.t2i, "i2t": report.i2t, "mean_recall": report.mean_recall}
                for language, report in self.languages.items()
            },
            "queries": self.queries,
            "total_seconds": self.total_seconds,
            "evaluation": self.evaluation and {"total": self.evaluation.total, **asdict(self.evaluation)},
        }


@dataclass(frozen=True, kw_only=True)
class Quoted:
    """A line of a paper's own table: it stands under one's own, marked as the paper's."""

    name: str  # of the model, as in the paper
    setting: str = ""  # what it was measured on, as far as that is known
    figures: Mapping[str, float | str]  # by `Column.key`, as in the paper, without those it does not give

    def __str__(self) -> str:
        return ", ".join(filter(None, [f"paper: {self.name}", self.setting]))

    def to_dict(self) -> dict[str, Any]:
        """Return the line as `--json` prints it."""
        return {"model": self.name, "setting": self.setting, "figures": dict(self.figures)}


def quote(keys: Sequence[str], lines: str, *settings: str) -> tuple[Quoted, ...]:
    """Read lines of a paper's table: a name, "|", and the figures of each setting one after another.

    "-" is a figure that the paper does not give; "_" is a space in one that is not a number. `keys` are those
    of a setting's figures.

    Returns:
        All lines of the first setting, then those of the next; lines without any figure are left out.
    """
    parsed = [line.split("|") for line in filter(None, map(str.strip, lines.splitlines()))]
    quoted = []
    for place, setting in enumerate(settings or ("",)):
        start = place * len(keys)
        for name, figures in parsed:
            texts = figures.split()
            assert len(texts) == len(keys) * max(1, len(settings)), name
            given = zip(keys, texts[start : start + len(keys)], strict=True)
            known = {key: _figure(text) for key, text in given if text != "-"}
            if known:
                quoted.append(Quoted(name=name.strip(), setting=setting, figures=known))
    return tuple(quoted)


def _figure(text: str) -> float | str:
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError:
        return text.replace("_", " ")
