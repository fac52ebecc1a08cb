"""Cross-encoders measured: on all pairs, or on what a first stage has found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lexlip.errors import DataError
from lexlip.machine.progress import ProgressBar
from lexlip.measure.pool import PoolTokens
from lexlip.measure.recalls import Ranking, Report
from lexlip.search.hybrid import Fusion, fuse

if TYPE_CHECKING:
    from lexlip.models.one_transformer import OneTransformer

DEPTH = 10  # documents of a query that are kept if all pairs were scored
PAIRS = 4096  # scored between two updates of the progress bar

Odds = dict[str, list[np.ndarray]]
"""By "t2i" and "i2t": for each query the log-odds of its candidates, float32 [k]."""


def evaluate_pairs(model: OneTransformer, tokens: PoolTokens, progress: bool = False) -> Report:
    """Measure text to image and image to text by scoring every caption with every photo.

    Raises:
        DataError: there are no captions.
    """
    pool = tokens.pool
    if not pool.texts:
        raise DataError("there is no photo with captions to evaluate on")
    texts, photos = len(pool.texts), len(pool.image_ids)
    pairs = np.stack(np.divmod(np.arange(texts * photos), photos), axis=1)
    scores = _score(model, tokens, pairs, progress).reshape(texts, photos)
    t2i = _ranked(pool.text_ids, pool.image_ids, scores, pool.relevant_images)
    asking, scored = [pool.image_ids[row] for row in pool.image_queries], scores.T[pool.image_queries]
    i2t = _ranked(asking, pool.text_ids, scored, pool.relevant_texts)
    return Report.of(photos, texts, t2i, i2t, skipped=pool.skipped)


def rerank(
    model: OneTransformer,
    tokens: PoolTokens,
    first: Report,
    k: int,
    fusion: Fusion = "none",
    weight: float = 0.5,
    progress: bool = False,
) -> Report:
    """Return a first stage's report with the first k answers of each query in the cross-encoder's order.

    Args:
        model, tokens: the cross-encoder, and what the first stage was measured on. What is missing there,
            such as photos that cannot be read, stays behind the others.
        first: the first stage's report, with rankings.
        k: candidates of a query; the others stay behind them.
        fusion, weight: see `lexlip.search.hybrid.fuse`.
    """
    return reordered(first, candidate_odds(model, tokens, first, k, progress), k, fusion, weight)


def candidate_odds(
    model: OneTransformer, tokens: PoolTokens, first: Report, k: int, progress: bool = False
) -> Odds:
    """Return a cross-encoder's log-odds of the first k answers of each query; see `rerank`."""
    row_of_text = {id: row for row, id in enumerate(tokens.pool.text_ids)}
    row_of_image = {id: row for row, id in enumerate(tokens.pool.image_ids)}
    odds: Odds = {}
    for way, ranking in first.rankings.items():
        queries, documents = (row_of_text, row_of_image) if way == "t2i" else (row_of_image, row_of_text)
        pairs = np.array(
            [
                (queries.get(query, -1), documents.get(id, -1))
                for query, found in zip(ranking.queries, ranking.found, strict=True)
                for id in found[:k]
            ],
            dtype=np.int64,
        ).reshape(-1, 2)
        known = (pairs >= 0).all(axis=1)
        scores = np.full(len(pairs), np.nan, np.float32)
        scored = pairs[known] if way == "t2i" else pairs[known, ::-1].copy()
        scores[known] = _score(model, tokens, scored, progress)
        odds[way] = np.split(scores, np.cumsum([len(found[:k]) for found in ranking.found])[:-1])
    return odds


def reordered(first: Report, odds: Odds, k: int, fusion: Fusion = "none", weight: float = 0.5) -> Report:
    """Return what `rerank` does, given the odds of k candidates or more of each query."""
    return first.with_rankings(
        {way: _reordered(ranking, odds[way], k, fusion, weight) for way, ranking in first.rankings.items()}
    )


def _reordered(
    ranking: Ranking, odds: Sequence[np.ndarray], k: int, fusion: Fusion, weight: float
) -> Ranking:
    found, scores = [], []
    for ids, first, pairs in zip(ranking.found, ranking.scores, odds, strict=True):
        places = np.flatnonzero(~np.isnan(pairs[:k]))
        fused = fuse(first[places], pairs[places], fusion, weight)
        order = places[np.argsort(-fused, kind="stable")].tolist()
        behind = [place for place in range(len(ids)) if place not in set(order)]
        found.append([ids[place] for place in [*order, *behind]])
        # those behind keep their order, below the last candidate
        below = (fused.min() if len(places) else 0.0) - np.arange(1, len(behind) + 1)
        scores.append(np.concatenate([np.sort(fused)[::-1], below]))
    return replace(ranking, found=found, scores=scores)


def _ranked(
    queries: list[str], documents: list[str], scores: np.ndarray, relevant: list[set[str]]
) -> Ranking:
    order = np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]
    found = [[documents[row] for row in best] for best in order.tolist()]
    return Ranking(queries, found, list(np.take_along_axis(scores, order, axis=1)), relevant)


def _score(model: OneTransformer, tokens: PoolTokens, pairs: np.ndarray, progress: bool) -> np.ndarray:
    """Return the log-odds, float32 [N], of pairs, int64 [N, 2] (caption, photo)."""
    parts = [np.empty(0, np.float32)]
    with ProgressBar(total=len(pairs), unit="pair", desc="pairs", disable=not progress, delay=2) as bar:
        for start in range(0, len(pairs), PAIRS):
            some = pairs[start : start + PAIRS]
            texts, rows = np.unique(some[:, 0], return_inverse=True)
            here = np.stack([rows, some[:, 1]], axis=1)
            parts.append(model.score_pairs(tokens.photos, [tokens.pool.texts[row] for row in texts], here))
            bar.update(len(some))
    return np.concatenate(parts)
