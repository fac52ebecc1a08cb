"""A first stage finds photos in an index of any kind: words in Lucene, vectors in Faiss, captions in BM25."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anserini_bridge import IndexHeader
from lexlip.retrieval.engine import Results

if TYPE_CHECKING:
    from lexlip.models.contract import Encoder


@dataclass(frozen=True)
class Found:
    """What one query finds, best first.

    Attributes:
        ids: n ids of photos.
        scores: [n].
        words: for each photo what each shared word added to the score, heaviest first.
        terms: the query's words with their weights, heaviest first.
    """

    ids: list[str]
    scores: NDArray[np.floating]
    words: list[dict[str, float]]
    terms: dict[str, float]

    @classmethod
    def without_words(cls, results: Results) -> list[Found]:
        """Return the hits of an index that does not know which words matched."""
        return [cls(ids, scores, [{} for _ in ids], {}) for ids, scores in zip(*results, strict=True)]


class FirstStage(Protocol):
    """An open index with what encodes queries for it."""

    @property
    def index(self) -> Path:
        """The index's folder."""
        ...

    @property
    def metadata(self) -> IndexHeader:
        """What the index says about itself; `metadata.kind` is a key of `lexlip.registry.INDEXES`."""
        ...

    @property
    def encoder(self) -> Encoder:
        """The model that made the index, which encodes pictures.

        Raises:
            ModelError: no model did, or it cannot be loaded.
        """
        ...

    def encode(self, query: str) -> Any:
        """Return a sentence as `search` and `find` take it; `encoder.encode_image` returns a picture so."""
        ...

    def unknown(self, query: str) -> list[str]:
        """Return the words of a sentence that the index cannot know."""
        ...

    def search(self, queries: Sequence[Any], k: int) -> Results:
        """Return the ids and scores of the k best photos for each query."""
        ...

    def find(self, queries: Sequence[Any], k: int) -> list[Found]:
        """Return the k best photos for each query, with the words that matched."""
        ...

    def hold(self) -> AbstractContextManager[FirstStage]:
        """Give this stage as it is now, for one answer: a refresh meanwhile changes nothing in it."""
        ...

    def refresh(self) -> bool:
        """Move to the newest state of the index; return whether there was a newer one."""
        ...

    def close(self) -> None:
        """Close the index."""
        ...
