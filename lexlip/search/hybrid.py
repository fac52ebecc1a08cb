"""Two scores of a photo become one: of two indexes, such as words and dense vectors, or of a reranker."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from anserini_bridge import IndexHeader, UnknownId
from lexlip.errors import ModelError
from lexlip.queries.query_language import Query
from lexlip.retrieval.first_stage import FirstStage, Moved, Results
from lexlip.retrieval.photo_table import PhotoTable
from lexlip.search.stages.bm25 import CaptionsStage

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from lexlip.models.contract import Encoder
    from lexlip.queries.photo_encoder import PhotoEncoder

Fusion = Literal["none", "add", "norm_add"]
"""How a reranker's probability is combined with the first stage's score (Retrieve Fast, Table 9).

Not at all (the paper's best), as their weighted sum, or as the weighted sum after each was scaled to 0 ... 1
over the candidates.
"""

Hybrid = Literal["rrf", "weighted"]
"""How two answers are fused: by the ranks of a photo in both, or by its scores."""

RANK = 60  # of reciprocal rank fusion (Cormack et al., 2009)
DEPTH = 100  # documents of each of two engines that are fused

Pair = tuple[Any, Any]
"""A query as each of the two stages takes it; None if the second cannot be asked."""


class Allowed(NamedTuple):
    """The photos that may be found: for each stage, and those that neither may find."""

    first: Any
    second: Any
    gone: frozenset[str]


class HybridStage(FirstStage):
    """See `FirstStage`; words are those of the first index, and fused scores have no end that was measured.

    Args:
        first, second: open indexes, which are closed with it. If the second has the captions of the first, a
            picture searches the first alone.
        how, weight: see `lexlip.search.hybrid.fuse_two`.
    """

    adds_names = False

    def __init__(
        self, first: FirstStage, second: FirstStage, how: Hybrid = "rrf", weight: float = 0.5
    ) -> None:
        self.index = first.index
        self.first, self.second, self.how, self.weight = first, second, how, weight

    @property
    def metadata(self) -> IndexHeader:
        return self.first.metadata

    @property
    def encoder(self) -> Encoder | PhotoEncoder:
        if isinstance(self.second, CaptionsStage):
            return self.first.encoder
        raise ModelError("a picture searches one index: leave out --also")

    @property
    def state(self) -> str:
        return f"{self.first.state} | {self.second.state}"

    def tables(self) -> list[PhotoTable]:
        return [*self.first.tables(), *self.second.tables()]

    def read(self, query: Query) -> Query:
        return self.first.read(query)

    def encode(self, query: str | Query) -> Pair:
        plain = query if isinstance(query, str) else query.plain
        return self.first.encode(query), self.second.encode(plain)

    def of_vector(self, vector: csr_matrix) -> Pair:
        return vector, None

    def like(self, id: str) -> Pair:
        first = self.first.like(id)
        try:
            return first, self.second.like(id)
        except (ModelError, UnknownId):  # captions know nothing that is similar
            return first, None

    def unknown(self, query: str | Query) -> list[str]:
        return self.first.unknown(query)

    def other_languages(self, query: Query) -> Sequence[str]:
        return self.first.other_languages(query)

    def shown_in(self, query: Query) -> str:
        return self.first.shown_in(query)

    def doubtful(self, query: Query) -> Sequence[str]:
        return self.first.doubtful(query)

    def names(self, query: Query) -> Sequence[str]:
        return self.first.names(query)

    def is_foreign_word(self, word: str, query: Query) -> bool:
        return self.first.is_foreign_word(word, query)

    def is_not_english(self, query: Query, unknown: Sequence[str]) -> bool:
        return self.first.is_not_english(query, unknown)

    def lacks_languages(self) -> str:
        return self.first.lacks_languages()

    def near(self, word: str, number: int, language: str = "") -> list[str]:
        return self.first.near(word, number, language)

    def unread(self, query: str | Query) -> str:
        return self.first.unread(query)

    def search(self, queries: Sequence[Pair], k: int, allowed: Allowed | None = None) -> Results:
        """See `FirstStage`. The first 100 of both are fused; behind them come those that deeper searches add.

        So the order does not depend on k.
        """
        allowed = allowed or Allowed(None, None, frozenset())
        if any(two is None for _, two in queries):
            return self.first.search([one for one, _ in queries], k, allowed.first)
        ids: list[list[str]] = [[] for _ in queries]
        scores: list[list[float]] = [[] for _ in queries]
        depth = DEPTH
        while True:
            first = self.first.search([one for one, _ in queries], depth, allowed.first)
            second = self.second.search([two for _, two in queries], depth, allowed.second)
            there = _without(first, allowed.gone), _without(second, allowed.gone)
            fused = fuse_two(*there, 2 * depth, self.how, self.weight)
            for row, (found, points) in enumerate(zip(*fused, strict=True)):
                _append(found, points, ids[row], scores[row])
            rows = zip(ids, first[0], second[0], strict=True)
            if all(len(done) >= k or max(len(one), len(two)) < depth for done, one, two in rows):
                return [row[:k] for row in ids], [np.array(row[:k]) for row in scores]
            depth *= 4

    def terms(self, query: Pair) -> dict[str, float]:
        return self.first.terms(query[0])

    def matches(self, query: Pair, ids: Sequence[str]) -> list[dict[str, float]]:
        try:
            return self.first.matches(query[0], ids)
        except UnknownId:  # photos that only the second index holds share no word
            return [self._match(query, id) or {} for id in ids]

    def _match(self, query: Pair, id: str) -> dict[str, float] | None:
        """Return what each shared word added to the score of a photo; None: the first index lacks it."""
        try:
            return self.first.matches(query[0], [id])[0]
        except UnknownId:
            return None

    def weights(self, id: str) -> dict[str, float]:
        return self.first.weights(id)

    def suggestions(
        self, query: Pair, ids: Sequence[str], number: int, without: Sequence[str] = ()
    ) -> list[str]:
        try:
            return self.first.suggestions(query[0], ids, number, without)
        except UnknownId:  # photos that only the second index holds suggest no word
            held = [id for id in ids if self._match(query, id) is not None]
            return self.first.suggestions(query[0], held, number, without) if held else []

    def allow(
        self, ids: Sequence[str] | None, without: Sequence[str] = (), but: Collection[str] = ()
    ) -> Allowed | None:
        if ids is None and not without:
            return None
        gone = self.first.holding(without)
        return Allowed(self.first.allow(ids, without), self.second.allow(ids), gone)

    def holding(self, words: Sequence[str]) -> frozenset[str]:
        return self.first.holding(words)

    @contextmanager
    def hold(self) -> Iterator[HybridStage]:
        with self.first.hold() as first, self.second.hold() as second:
            one, two = first.metadata, second.metadata
            if first.index == second.index and (one.created, one.extra) != (two.created, two.extra):
                raise Moved(f"{first.index} was updated between a look at its words and one at its captions")
            yield HybridStage(first, second, self.how, self.weight)

    def refresh(self) -> bool:
        newer = [stage.refresh() for stage in (self.first, self.second)]
        return any(newer)

    def close(self) -> None:
        for stage in (self.first, self.second):
            stage.close()


def _without(results: Results, gone: frozenset[str]) -> Results:
    """Return answers without some photos."""
    if not gone:
        return results
    kept = [[rank for rank, id in enumerate(ids) if id not in gone] for ids in results[0]]
    ids = [[row[rank] for rank in ranks] for row, ranks in zip(results[0], kept, strict=True)]
    return ids, [row[ranks] for row, ranks in zip(results[1], kept, strict=True)]


def _append(found: Sequence[str], points: np.ndarray, ids: list[str], scores: list[float]) -> None:
    """Append photos that are new; none gets a better score than those before."""
    known, lowest = set(ids), scores[-1] if scores else np.inf
    for id, point in zip(found, points, strict=True):
        if id not in known:
            ids.append(id)
            scores.append(min(float(point), lowest))


def fuse(first: np.ndarray, odds: np.ndarray, fusion: Fusion = "none", weight: float = 0.5) -> np.ndarray:
    """Return the scores that a query's k candidates are ordered by, of scores and log-odds, all float [k].

    The weight is that of the first in a sum; the odds have the rest.
    """
    if fusion == "none":
        return np.asarray(odds, np.float64)
    first, second = np.asarray(first, np.float64), probability(odds)
    if fusion == "norm_add":
        first, second = _scaled(first), _scaled(second)
    fused: np.ndarray = weight * first + (1 - weight) * second
    return fused


def probability(odds: np.ndarray) -> np.ndarray:
    """Return the probability, float64, of log-odds."""
    return 1 / (1 + np.exp(-np.asarray(odds, np.float64)))


def _scaled(values: np.ndarray) -> np.ndarray:
    """Scale values to 0 ... 1; equal ones become 1, as what was not found has 0."""
    if not len(values):
        return values
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else np.ones_like(values)


def fuse_two(first: Results, second: Results, k: int, how: Hybrid = "rrf", weight: float = 0.5) -> Results:
    """Fuse what two engines found for the same queries; return the k best documents of each.

    "rrf" is by the sum of 1 / (60 + rank) (Cormack et al., 2009); "weighted" by that of scores, each engine's
    scaled to 0 ... 1 over what it found. The weight is that of the first engine; the second has the rest.
    """
    if how == "rrf":
        shares = [[1 / (RANK + 1 + np.arange(len(row))) for row in scores] for _, scores in (first, second)]
    else:
        weights = (first[1], weight), (second[1], 1 - weight)
        shares = [[share * _scaled(row) for row in scores] for scores, share in weights]
    return _sum([(first[0], shares[0]), (second[0], shares[1])], k)


def _sum(answers: Sequence[Results], k: int) -> Results:
    """Return for each query the documents with the largest sums; of equal ones the first found is first."""
    ids: list[list[str]] = []
    scores: list[np.ndarray] = []
    for query in range(len(answers[0][0])):
        sums: dict[str, float] = {}
        for found, points in answers:
            for id, value in zip(found[query], points[query], strict=True):
                sums[id] = sums.get(id, 0.0) + float(value)
        best = sorted(sums, key=lambda id: -sums[id])[:k]
        ids.append(best)
        scores.append(np.array([sums[id] for id in best]))
    return ids, scores
