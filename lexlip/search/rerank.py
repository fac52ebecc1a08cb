"""The second stage: a cross-encoder looks again at the photos that a first stage has found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from lexlip.data import UnreadableImage, decode
from lexlip.data.files import read_location
from lexlip.encoders.image import to_pixels
from lexlip.models.load import load_reranker
from lexlip.retrieval.answer import Hit
from lexlip.search.hybrid import Fusion, fuse, probability

BATCH = 32  # photos encoded at a time


class Reranker:
    """Orders hits by the probability that the sentence describes the photo, as a cross-encoder sees it.

    The photos are read and encoded for each query.

    Args:
        model: name or folder of a model that compares pairs (`ce` or `joint`).
        k: hits that it looks at; the others stay behind them.
        fusion, weight: see `lexlip.search.hybrid.fuse`.

    Raises:
        ModelError: there is no such model, or it does not compare pairs.
        ConfigError: there is no such device.
    """

    def __init__(
        self,
        model: str | Path,
        k: int = 20,
        fusion: Fusion = "none",
        weight: float = 0.5,
        device: str = "auto",
    ) -> None:
        self.model = load_reranker(model, device)
        self.k, self.fusion, self.weight = k, fusion, weight

    def __call__(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits of a sentence, best first, with probabilities.

        Photos that cannot be read any more come last of the candidates, without a probability.
        """
        candidates = hits[: self.k]
        pictures = [self._pixels(hit.path) for hit in candidates]
        readable = [row for row, pixels in enumerate(pictures) if pixels is not None]
        ordered: list[Hit] = []
        if readable:
            pixels = torch.stack([p for p in pictures if p is not None])
            photos = torch.cat([self.model.embed_photos(some) for some in pixels.split(BATCH)])
            pairs = np.stack([np.zeros(len(readable), np.int64), np.arange(len(readable))], axis=1)
            odds = self.model.score_pairs(photos, [query], pairs)
            first = np.array([candidates[row].score for row in readable])
            fused = fuse(first, odds, self.fusion, self.weight)
            probabilities = probability(odds)
            ordered = [
                replace(candidates[readable[place]], probability=float(probabilities[place]))
                for place in np.argsort(-fused, kind="stable")
            ]
        ordered += [hit for hit, pixels in zip(candidates, pictures, strict=True) if pixels is None]
        return [replace(hit, rank=rank) for rank, hit in enumerate([*ordered, *hits[self.k :]], 1)]

    def _pixels(self, path: str) -> torch.Tensor | None:
        config = self.model.config.image
        try:
            return to_pixels(decode(read_location(path), config.size), config)
        except UnreadableImage:
            return None
