"""Two indexes of the same photos as one first stage, such as one of words and one of dense vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anserini_bridge import IndexHeader
from lexlip.errors import ModelError
from lexlip.retrieval.engine import Results
from lexlip.retrieval.first_stage import FirstStage, Found
from lexlip.search.fusion import DEPTH, Hybrid, fuse_two

if TYPE_CHECKING:
    from lexlip.models.contract import Encoder

Pair = tuple[Any, Any]
"""A sentence as each of the two stages takes it."""


class HybridStage:
    """See `FirstStage`; words and terms are those of the first index.

    Args:
        first, second: open indexes, which are closed with it.
        how, weight: see `lexlip.search.fusion.fuse_two`.
    """

    def __init__(
        self, first: FirstStage, second: FirstStage, how: Hybrid = "rrf", weight: float = 0.5
    ) -> None:
        self.first, self.second, self.how, self.weight = first, second, how, weight

    @property
    def index(self) -> Path:
        return self.first.index

    @property
    def metadata(self) -> IndexHeader:
        return self.first.metadata

    @property
    def encoder(self) -> Encoder:
        raise ModelError("a picture searches one index: leave out --also")

    def encode(self, query: str) -> Pair:
        return self.first.encode(query), self.second.encode(query)

    def unknown(self, query: str) -> list[str]:
        return self.first.unknown(query)

    def search(self, queries: Sequence[Pair], k: int) -> Results:
        first = self.first.search([query for query, _ in queries], max(k, DEPTH))
        second = self.second.search([query for _, query in queries], max(k, DEPTH))
        return fuse_two(first, second, k, self.how, self.weight)

    def find(self, queries: Sequence[Pair], k: int) -> list[Found]:
        one = self.first.find([query for query, _ in queries], max(k, DEPTH))
        first = [found.ids for found in one], [found.scores for found in one]
        second = self.second.search([query for _, query in queries], max(k, DEPTH))
        ids, scores = fuse_two(first, second, k, self.how, self.weight)
        answers = []
        for found, hits, points in zip(one, ids, scores, strict=True):
            words = dict(zip(found.ids, found.words, strict=True))
            answers.append(Found(hits, points, [words.get(id, {}) for id in hits], found.terms))
        return answers

    @contextmanager
    def hold(self) -> Iterator[HybridStage]:
        with self.first.hold() as first, self.second.hold() as second:
            yield HybridStage(first, second, self.how, self.weight)

    def refresh(self) -> bool:
        newer = [stage.refresh() for stage in (self.first, self.second)]
        return any(newer)

    def close(self) -> None:
        for stage in (self.first, self.second):
            stage.close()
