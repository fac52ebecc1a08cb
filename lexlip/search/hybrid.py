"""Two indexes of the same photos as one first stage, such as one of words and one of dense vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from anserini_bridge import IndexHeader
from lexlip.errors import ModelError
from lexlip.search.engines import Results
from lexlip.search.first_stage import FirstStage, Found
from lexlip.search.fusion import reciprocal_rank, weighted

if TYPE_CHECKING:
    from lexlip.models.encoder import Encoder

Hybrid = Literal["rrf", "weighted"]
"""How two answers become one: by the ranks of a photo in both, or by its scores."""

DEPTH = 100  # documents of each that meet


def fuse_two(first: Results, second: Results, k: int, how: Hybrid = "rrf", weight: float = 0.5) -> Results:
    """The answers of two engines to the same queries as one; see `lexlip.search.fusion`.

    Args:
        first, second: what they found.
        k: documents of each query to keep.
        how: by ranks or by scores.
        weight: of the first, in the sum of scores.
    """
    if how == "rrf":
        return reciprocal_rank([first, second], k)
    return weighted([first, second], k, [weight, 1 - weight])


class HybridStage:
    """See `FirstStage`; words are those of the first.

    Args:
        first, second: open indexes, which are closed with it.
        how, weight: see `fuse_two`.
    """

    def __init__(
        self, first: FirstStage, second: FirstStage, how: Hybrid = "rrf", weight: float = 0.5
    ) -> None:
        self.first, self.second, self.how, self.weight = first, second, how, weight

    @property
    def metadata(self) -> IndexHeader:
        return self.first.metadata

    @property
    def encoder(self) -> Encoder:
        raise ModelError("a picture searches one index: leave out --also")

    def encode(self, query: str) -> tuple[Any, Any]:
        return self.first.encode(query), self.second.encode(query)

    def unknown(self, query: str) -> list[str]:
        return self.first.unknown(query)

    def find(self, query: tuple[Any, Any], k: int) -> Found:
        both = [stage.find(part, max(k, DEPTH)) for stage, part in zip(self._stages, query, strict=True)]
        first, second = (([found.ids], [found.scores]) for found in both)
        (ids,), (scores,) = fuse_two(first, second, k, self.how, self.weight)
        words = dict(zip(both[0].ids, both[0].words, strict=True))
        return Found(ids, scores, [words.get(id, {}) for id in ids], both[0].terms)

    def close(self) -> None:
        for stage in self._stages:
            stage.close()

    @property
    def _stages(self) -> tuple[FirstStage, FirstStage]:
        return self.first, self.second
