"""What finds photos in an index of any kind: words in Lucene, dense vectors in Faiss, captions in BM25."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anserini_bridge import CorruptIndex, IndexHeader, read_header

if TYPE_CHECKING:
    from lexlip.models.encoder import Encoder, QueryEncoder


@dataclass(frozen=True)
class Found:
    """What one query finds, best first.

    Attributes:
        ids: n ids of photos.
        scores: [n].
        words: n times what each shared word added to the score, heaviest first.
        terms: the query's words with their weights, heaviest first.
    """

    ids: list[str]
    scores: NDArray[np.floating]
    words: list[dict[str, float]]
    terms: dict[str, float]

    @classmethod
    def without_words(cls, ids: list[str], scores: NDArray[np.floating]) -> Found:
        """Where nothing tells which words matched."""
        return cls(ids, scores, [{} for _ in ids], {})


class FirstStage(Protocol):
    """An open index with what encodes queries for it.

    Attributes:
        metadata: what the index says about itself; `metadata.kind` is "impact", "dense" or "bm25".
    """

    @property
    def metadata(self) -> IndexHeader: ...

    @property
    def encoder(self) -> Encoder:
        """The model that made the index, which encodes pictures.

        Raises:
            ModelError: none did, or it cannot be loaded.
        """
        ...

    def encode(self, query: str) -> Any:
        """A sentence as `find` takes it; so is what `encoder.encode_image` gives for one picture."""
        ...

    def unknown(self, query: str) -> list[str]:
        """Words of a sentence that the index cannot know."""
        ...

    def find(self, query: Any, k: int) -> Found:
        """The k best photos."""
        ...

    def close(self) -> None: ...


def open_first_stage(
    index: Path,
    model: str | None = None,
    query_encoder: QueryEncoder = "network",
    query_topk: int | None = 24,
) -> FirstStage:
    """Opens an index as the kind that it is; the arguments are those of `PhotoSearch`.

    Raises:
        ModelError, BridgeError: as `PhotoSearch`.
    """
    kind = read_header(index).kind
    if kind == "impact":
        from lexlip.search.words import WordStage

        return WordStage(index, model, query_encoder, query_topk)
    if kind == "dense":
        from lexlip.search.dense import DenseStage

        return DenseStage(index, model, query_encoder)
    if kind == "bm25":
        from lexlip.search.captions import CaptionStage

        return CaptionStage(index, model)
    raise CorruptIndex(f"{index} holds an index of an unknown kind, {kind!r}: build the index again.")
