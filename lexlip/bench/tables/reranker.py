"""A cross-encoder with the photos whose answers it reranks in a table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from lexlip.bench.response import RerankerTokens
from lexlip.bench.tables.first_stages import reranker_folder
from lexlip.bench.tables.settings import TableSettings
from lexlip.data import Source, spread
from lexlip.measure.evaluate import Report
from lexlip.measure.pairs import candidate_odds, reordered
from lexlip.measure.pool import PoolTokens, embed_pool
from lexlip.models.load import load_reranker
from lexlip.models.one_transformer import OneTransformer
from lexlip.search.fusion import Fusion

TOKENS = 256  # photos that the reranker is timed with


class TableReranker:
    """A cross-encoder with the photos that it needs, each of which it encodes once.

    Args:
        name: as the user named it.
        source: the photos.
        settings: workers and progress.

    Attributes:
        wanted: ids of the photos that it needs.
    """

    def __init__(self, name: str, source: Source, settings: TableSettings) -> None:
        self.name, self.folder = name, reranker_folder(name)
        self.source, self.settings = source, settings
        self.wanted: set[str] = set()

    @cached_property
    def model(self) -> OneTransformer:
        return load_reranker(self.folder, self.settings.device)

    @cached_property
    def tokens(self) -> PoolTokens:
        """The photos that are wanted; TOKENS photos of the pool, if none are."""
        ids = [item.id for item in self.source.items]
        rows = [row for row, id in enumerate(ids) if id in self.wanted] or list(spread(len(ids), TOKENS))
        return embed_pool(self.model, self.source, self.settings.workers, self.settings.progress, rows)

    @property
    def photo_bytes(self) -> int:
        """The bytes of a photo's tokens."""
        tokens = self.tokens.photos[0]
        return tokens.numel() * tokens.element_size()

    def want(self, report: Report) -> None:
        """Note the photos that are needed to rerank a first stage's answers."""
        for way, ranking in report.rankings.items():
            answers = {id for found in ranking.found for id in found}
            photos, texts = (answers, ranking.queries) if way == "t2i" else (ranking.queries, answers)
            self.wanted.update(photos, map(owner_of, texts))

    def reports(
        self, first: Report, ks: Sequence[int], fusions: Sequence[Fusion], weight: float
    ) -> dict[tuple[int, Fusion], Report]:
        """Return the first stage's report with the k best reranked, by k and fusion.

        Each pair is scored once.
        """
        odds = candidate_odds(self.model, self.tokens, first, max(ks), self.settings.progress)
        return {(k, fusion): reordered(first, odds, k, fusion, weight) for k in ks for fusion in fusions}

    def save_tokens(self, folder: Path) -> RerankerTokens:
        """Write what the reranker is timed with."""
        file = folder / "tokens.npy"
        np.save(file, self.tokens.photos[:TOKENS].numpy())
        return RerankerTokens(str(self.folder), file)


def owner_of(text: str) -> str:
    """Return the id of a caption's photo, given the caption's id, PHOTO#n."""
    return text.rpartition("#")[0]
