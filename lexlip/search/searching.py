"""Answers a sentence or a picture with the photos of an index, and says which words matched."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from scipy.sparse import csr_matrix

from anserini_bridge import ImpactSearcher, read_metadata
from lexlip.data import decode
from lexlip.errors import DataError
from lexlip.search.collection import locate
from lexlip.search.encoder import load_encoder, load_queries
from lexlip.search.engines import LuceneEngine

if TYPE_CHECKING:
    from lexlip.models.dual_encoder import QueryEncoder
    from lexlip.models.lexlip import LexLIP


@dataclass(frozen=True)
class Hit:
    """A photo found, with what each shared word added to its score."""

    rank: int
    id: str
    path: str
    score: float
    words: dict[str, float]


@dataclass(frozen=True)
class Answer:
    """The hits of a query, best first; the weights of its words; milliseconds by stage."""

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
    """An open index with the encoder that made it; torch is loaded by the first picture that searches.

    Args:
        index: the index's folder.
        model: name or folder of the model; None is the one the index was made with.
        query_encoder: see `lexlip.models.queries.TextQueries`.
        query_topk: words that a query keeps, the heaviest (see docs/latency.md); None keeps all.

    Raises:
        ModelError: the model is not there, or is not the one that made the index.
        BridgeError: no index, or one that cannot be read (see anserini_bridge.errors).
    """

    def __init__(
        self,
        index: str | Path = ".lexlip",
        model: str | None = None,
        query_encoder: QueryEncoder = "network",
        query_topk: int | None = 24,
    ) -> None:
        self.index = Path(index)
        metadata = read_metadata(self.index)
        self.model = model
        self.queries = load_queries(self.index, metadata, model, query_encoder)
        self.searcher = ImpactSearcher(self.index, self.queries.vocabulary.words)
        self.engine = LuceneEngine(self.searcher, query_topk)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.searcher.close()

    def text(self, query: str, k: int = 10) -> Answer:
        """The k photos that fit a sentence best."""
        started = time.perf_counter()
        vector = self.queries.encode(query)
        return self._answer(query, vector, k, started, self.queries.unknown(query))

    def image(self, path: str | Path, k: int = 10) -> Answer:
        """The k photos that are most like a picture.

        Raises:
            DataError: the file cannot be read, or is not an image.
        """
        started = time.perf_counter()
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise DataError(f"cannot read the picture {path}: {error.strerror}") from error
        try:
            photo = decode(data, self.encoder.config.image.size)
        except DataError as error:
            raise DataError(f"cannot read the picture {path}: {error}") from error
        return self._answer(str(path), self.encoder.encode_image([photo]), k, started, [])

    @cached_property
    def encoder(self) -> LexLIP:
        return load_encoder(self.index, self.searcher.metadata, self.model)

    def _answer(self, query: str, vector: csr_matrix, k: int, started: float, unknown: list[str]) -> Answer:
        encoded = time.perf_counter()
        impacts = self.engine.quantized(vector)
        ids, scores = self.searcher.search(impacts, k)
        matches = self.searcher.contributions(impacts, ids[0])
        searched = time.perf_counter()
        unit = self.engine.unit
        hits = [
            Hit(
                rank=rank,
                id=id,
                path=locate(id, self.searcher.metadata.extra, self.index),
                score=float(score) / unit,
                words=self._named(matches[rank - 1], unit),
            )
            for rank, (id, score) in enumerate(zip(ids[0], scores[0], strict=True), 1)
        ]
        return Answer(
            query=query,
            terms=self._named(impacts, self.engine.unit**0.5),
            hits=hits,
            ms={"encode": 1000 * (encoded - started), "search": 1000 * (searched - encoded)},
            unknown=unknown,
        )

    def _named(self, row: csr_matrix, unit: float) -> dict[str, float]:
        """The entries of one row as {word: weight}, heaviest first."""
        entries = sorted(zip(row.indices, row.data, strict=True), key=lambda entry: (-entry[1], entry[0]))
        return {self.searcher.vocabulary[column]: float(weight) / unit for column, weight in entries}
