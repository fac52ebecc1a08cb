"""Answers: the photos that a query found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Hit:
    """A photo that was found.

    Attributes:
        rank: from 1.
        id: the photo's id in the index.
        path: where the photo is.
        score: of the first stage.
        words: what each shared word added to the score; empty unless the index is one of words.
        probability: what a cross-encoder says, if one reranked the photo.
    """

    rank: int
    id: str
    path: str
    score: float
    words: dict[str, float]
    probability: float | None = None


@dataclass(frozen=True)
class Answer:
    """The hits of a query.

    Attributes:
        query: the sentence, or the picture's path.
        terms: the query's words with their weights, if it has any.
        hits: best first.
        ms: milliseconds by stage: "encode", "search", and "rerank" if a cross-encoder reranked.
        unknown: words of the query that the vocabulary does not have.
    """

    query: str
    terms: dict[str, float]
    hits: list[Hit]
    ms: dict[str, float]
    unknown: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain dictionaries and lists, as `lexlip search --json` prints it."""
        return asdict(self)
