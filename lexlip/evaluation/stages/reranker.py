"""A cross-encoder with the photos whose answers it reranks in a table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from lexlip.data import Source, spread
from lexlip.evaluation.evaluate import Report
from lexlip.evaluation.first_stages import Settings, reranker_folder
from lexlip.evaluation.pairs import Embedded, candidate_odds, embed_source, reordered
from lexlip.evaluation.stages.response import Tokens
from lexlip.models.kinds import load_reranker
from lexlip.models.one_transformer import OneTransformer
from lexlip.search.fusion import Fusion

TOKENS = 256  # photos whose tokens are there while reranking is timed


class Reranker:
    """A cross-encoder with the photos that it needs, which it sees once.

    Args:
        name: as the user named it.
        pool: the photos.
        settings: workers and progress.
    """

    def __init__(self, name: str, pool: Source, settings: Settings) -> None:
        self.name, self.folder = name, reranker_folder(name)
        self.pool, self.settings = pool, settings
        self.wanted: set[str] = set()
        """Ids of photos that it has to know."""

    @cached_property
    def model(self) -> OneTransformer:
        return load_reranker(self.folder)

    @cached_property
    def embedded(self) -> Embedded:
        """The photos that are wanted; TOKENS of the pool, if none are."""
        ids = [item.id for item in self.pool.items]
        rows = [row for row, id in enumerate(ids) if id in self.wanted] or list(spread(len(ids), TOKENS))
        return embed_source(self.model, self.pool, self.settings.workers, self.settings.progress, rows)

    @property
    def photo_bytes(self) -> int:
        """Of a photo that it knows."""
        tokens = self.embedded.photos[0]
        return tokens.numel() * tokens.element_size()

    def want(self, report: Report) -> None:
        """It will have to rerank answers of a first stage."""
        for way, ranking in report.rankings.items():
            answers = {id for found in ranking.found for id in found}
            photos, texts = (answers, ranking.queries) if way == "t2i" else (ranking.queries, answers)
            self.wanted.update(photos, map(owner_of, texts))

    def reports(
        self, first: Report, ks: Sequence[int], fusions: Sequence[Fusion], weight: float
    ) -> dict[tuple[int, Fusion], Report]:
        """The first stage's report with the k best reranked, by k and fusion; pairs are scored once."""
        odds = candidate_odds(self.model, self.embedded, first, max(ks), self.settings.progress)
        return {(k, fusion): reordered(first, odds, k, fusion, weight) for k in ks for fusion in fusions}

    def tokens(self, folder: Path) -> Tokens:
        """What it is timed with."""
        file = folder / "tokens.npy"
        np.save(file, self.embedded.photos[:TOKENS].numpy())
        return Tokens(str(self.folder), file)


def owner_of(text: str) -> str:
    """The id of the photo of a caption, by the caption's id, PHOTO#n."""
    return text.rpartition("#")[0]
