"""Answers a sentence or a picture with the photos of an index of any kind, and says which words matched."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from anserini_bridge import read_header
from lexlip.data import decode
from lexlip.errors import DataError, ModelError
from lexlip.search.collection import check_same_photos, locate
from lexlip.search.first_stage import FirstStage, open_first_stage

if TYPE_CHECKING:
    from lexlip.models.encoder import QueryEncoder
    from lexlip.search.hybrid import Hybrid
    from lexlip.search.reranking import Reranker


@dataclass(frozen=True)
class Hit:
    """A photo found, with what each shared word added to its score; no words but of an index of words.

    `probability` is what a cross-encoder says, by which photos are then ranked; None where none did.
    """

    rank: int
    id: str
    path: str
    score: float
    words: dict[str, float]
    probability: float | None = None


@dataclass(frozen=True)
class Answer:
    """The hits of a query, best first; the weights of its words, if it has any; milliseconds by stage."""

    query: str
    terms: dict[str, float]
    hits: list[Hit]
    ms: dict[str, float]
    unknown: list[str]  # words of the query that the vocabulary does not have

    def to_dict(self) -> dict[str, Any]:
        plain = asdict(self)
        del plain["unknown"]
        return plain


class PhotoSearch:
    """An open index with what made it: LexLIP's words, a dense model's vectors, or captions in BM25.

    An index of words answers sentences without torch, which the first picture that searches loads.

    Args:
        index: the index's folder.
        model: name or folder of the model; None is the one the index was made with.
        query_encoder: see `lexlip.models.queries.TextQueries`; a dense index takes "network" only, and
            captions need none.
        query_topk: words that a sentence keeps where the index is of words, the heaviest (see
            docs/latency.md); None keeps all, as pictures do.
        rerank: a second stage, which looks at the first photos again.
        also: the folder of a second index of the same photos, whose answers are fused with the first's.
        hybrid, hybrid_weight: how; see `lexlip.search.hybrid.fuse_two`.

    Raises:
        ModelError: the model is not there, or is not the one that made the index.
        DataError: the second index is of photos from another folder.
        BridgeError: no index, or one that cannot be read (see anserini_bridge.errors).
    """

    def __init__(
        self,
        index: str | Path = ".lexlip",
        model: str | None = None,
        query_encoder: QueryEncoder = "network",
        query_topk: int | None = 24,
        rerank: Reranker | None = None,
        also: str | Path | None = None,
        hybrid: Hybrid = "rrf",
        hybrid_weight: float = 0.5,
    ) -> None:
        self.index, self.rerank = Path(index), rerank
        if also is not None:
            first, second = read_header(index).extra, read_header(also).extra
            check_same_photos(first, second, self.index, Path(also))
        self.stage: FirstStage = open_first_stage(self.index, model, query_encoder, query_topk)
        if also is not None:
            from lexlip.search.hybrid import HybridStage

            other = open_first_stage(Path(also))
            self.stage = HybridStage(self.stage, other, hybrid, hybrid_weight)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stage.close()

    def text(self, query: str, k: int = 10) -> Answer:
        """The k photos that fit a sentence best."""
        started = time.perf_counter()
        deep = k if self.rerank is None else max(k, self.rerank.k)
        answer = self._answer(query, self.stage.encode(query), deep, started, self.stage.unknown(query))
        if self.rerank is None:
            return answer
        started = time.perf_counter()
        hits = self.rerank(query, answer.hits)[:k]
        return replace(answer, hits=hits, ms={**answer.ms, "rerank": 1000 * (time.perf_counter() - started)})

    def image(self, path: str | Path, k: int = 10) -> Answer:
        """The k photos that are most like a picture.

        Raises:
            DataError: the file cannot be read, or is not an image.
            ModelError: the index holds captions, or there is a second stage, which takes sentences.
        """
        if self.rerank is not None:
            raise ModelError("a cross-encoder compares sentences with photos: leave out --rerank")
        started = time.perf_counter()
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise DataError(f"cannot read the picture {path}: {error.strerror}") from error
        encoder = self.stage.encoder
        try:
            photo = decode(data, encoder.config.image.size)
        except DataError as error:
            raise DataError(f"cannot read the picture {path}: {error}") from error
        return self._answer(str(path), encoder.encode_image([photo]), k, started, [])

    def _answer(self, query: str, encoded: Any, k: int, started: float, unknown: list[str]) -> Answer:
        encoded_at = time.perf_counter()
        found = self.stage.find(encoded, k)
        searched_at = time.perf_counter()
        hits = [
            Hit(
                rank=rank,
                id=id,
                path=locate(id, self.stage.metadata.extra, self.index),
                score=float(score),
                words=words,
            )
            for rank, (id, score, words) in enumerate(
                zip(found.ids, found.scores, found.words, strict=True), 1
            )
        ]
        return Answer(
            query=query,
            terms=found.terms,
            hits=hits,
            ms={"encode": 1000 * (encoded_at - started), "search": 1000 * (searched_at - encoded_at)},
            unknown=unknown,
        )
