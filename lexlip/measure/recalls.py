"""What a measurement found: recalls of both directions, and the answers that they are of."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lexlip.data import Skipped
from lexlip.measure.words import WordsScale
from lexlip.search.hybrid import DEPTH, Hybrid, fuse_two

ShortQueries = dict[str, dict[str, float | None] | None]
"""What is measured of each group of short queries; None: there are no such queries."""


def recall_at_k(
    results: Sequence[Sequence[str]], relevant: Sequence[Collection[str]], ks: Sequence[int] = (1, 5, 10)
) -> dict[str, float]:
    """Return {"R@1": ..., ...}: the share of queries, in percent, with a relevant id among the first k.

    `results` are the ids that each query found, best first; `relevant` those that it should find.
    """
    firsts = [
        next((rank for rank, id in enumerate(found, 1) if id in right), np.inf)
        for found, right in zip(results, relevant, strict=True)
    ]
    ranks = np.array(firsts, dtype=float)
    return {f"R@{k}": 100 * int((ranks <= k).sum()) / max(1, len(ranks)) for k in ks}


@dataclass(frozen=True)
class Ranking:
    """One direction: what each of n queries found, and what it should have found."""

    queries: list[str]  # their ids
    found: list[list[str]]  # ids of documents, best first
    scores: list[np.ndarray]  # of these, not increasing
    relevant: list[set[str]]  # ids of documents

    @property
    def recalls(self) -> dict[str, float]:
        """R@1, R@5 and R@10 in percent."""
        return recall_at_k(self.found, self.relevant)


@dataclass(frozen=True)
class Report:
    """What `lexlip.measure.evaluate.evaluate` measures; what a dense model has not is None.

    Attributes:
        images, captions: in the pool.
        t2i, i2t: recalls in percent, {"R@1": ..., "R@5": ..., "R@10": ...}.
        terms_image, terms_text: mean number of words of a whole vector.
        words_at_10, words_scale: see `lexlip.measure.words`.
        skipped: photos that could not be read.
        terms_kept: mean number of words of an image after top-K.
        short_queries: by group, see `lexlip.measure.short_queries`; None if that was not measured.
        rankings: the answers, by "t2i" and "i2t".
    """

    images: int
    captions: int
    t2i: dict[str, float]
    i2t: dict[str, float]
    terms_image: float | None = None
    terms_text: float | None = None
    words_at_10: float | None = None
    skipped: list[Skipped] = field(default_factory=list)
    terms_kept: float | None = None
    words_scale: WordsScale | None = None
    short_queries: ShortQueries | None = None
    rankings: dict[str, Ranking] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, images: int, captions: int, t2i: Ranking, i2t: Ranking, **others: Any) -> Report:
        """Return the report of two rankings; `others` are further attributes."""
        return cls(images, captions, t2i.recalls, i2t.recalls, rankings={"t2i": t2i, "i2t": i2t}, **others)

    @property
    def mean_recall(self) -> float:
        """Mean of R@1, R@5 and R@10 of both directions."""
        return float(np.mean([*self.t2i.values(), *self.i2t.values()]))

    @property
    def words_in_words(self) -> str:
        """words@10 with what it can be compared with."""
        if self.words_scale is None:
            return f"{self.words_at_10:.3f}"
        human = "" if self.words_scale.human is None else f", people {self.words_scale.human:.3f}"
        return f"{self.words_at_10:.3f} (the same ten words for all {self.words_scale.chance:.3f}{human})"

    def with_rankings(self, rankings: Mapping[str, Ranking]) -> Report:
        """Return the same measurement with other answers; what short queries find is then unknown."""
        t2i, i2t = rankings["t2i"].recalls, rankings["i2t"].recalls
        return replace(self, t2i=t2i, i2t=i2t, short_queries=None, rankings=dict(rankings))

    def fused_with(
        self, other: Report, how: Hybrid = "rrf", weight: float = 0.5, depth: int = DEPTH
    ) -> Report:
        """Return this report with the fused answers of both, `depth` documents of each query.

        `other` is of the same queries; see `lexlip.search.hybrid.fuse_two`.
        """
        fused = {}
        for way, first in self.rankings.items():
            second = other.rankings[way]
            both = (first.found, first.scores), (second.found, second.scores)
            found, scores = fuse_two(*both, depth, how, weight)
            fused[way] = replace(first, found=found, scores=scores)
        return self.with_rankings(fused)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain dictionaries, as `lexlip evaluate --json` prints them."""
        return {
            "images": self.images,
            "captions": self.captions,
            "t2i": self.t2i,
            "i2t": self.i2t,
            "mean_recall": self.mean_recall,
            "terms_image": self.terms_image,
            "terms_text": self.terms_text,
            "terms_kept": self.terms_kept,
            "words@10": self.words_at_10,
            "words@10_chance": self.words_scale.chance if self.words_scale else None,
            "words@10_human": self.words_scale.human if self.words_scale else None,
            "short_queries": self.short_queries,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Report:
        """Return the report that `to_dict` was called on, without its rankings and skipped photos.

        Raises:
            KeyError: an entry is missing.
        """
        chance = plain.get("words@10_chance")
        same = ("images", "captions", "t2i", "i2t", "terms_image", "terms_text")
        return cls(
            **{name: plain[name] for name in same},
            words_at_10=plain["words@10"],
            words_scale=None if chance is None else WordsScale(chance, plain["words@10_human"]),
            terms_kept=plain.get("terms_kept", plain["terms_image"]),  # a validation keeps all
            short_queries=plain.get("short_queries"),
        )
