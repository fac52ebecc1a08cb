"""Cross-encoders measured: on all pairs, or on what a first stage has found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from lexlip.data import Skipped, Source
from lexlip.encoding import PhotoPixels
from lexlip.errors import DataError
from lexlip.evaluation.evaluate import Ranking, Report
from lexlip.evaluation.recall import recall_at_k
from lexlip.models.one_transformer import OneTransformer
from lexlip.search.fusion import Fusion, fuse

DEPTH = 10  # documents of a query that are kept where all pairs were scored
PAIRS = 4096  # scored between two moves of the progress bar

Odds = dict[str, list[np.ndarray]]
"""By "t2i" and "i2t", of each query the log-odds of its candidates, float32 [k]."""


@dataclass(frozen=True)
class Embedded:
    """n photos ready to be joined with captions, and their captions.

    Attributes:
        image_ids: n ids.
        photos: float16 [n, P, D], see `OneTransformer.embed_photos`.
        text_ids: T ids, IMAGE#0 and so on.
        texts: the T captions.
        owners: int64 [T], the row of each caption's photo.
        skipped: photos that cannot be read, with the reason.
    """

    image_ids: list[str]
    photos: Tensor
    text_ids: list[str]
    texts: list[str]
    owners: np.ndarray
    skipped: list[Skipped]


def embed_source(
    model: OneTransformer,
    source: Source,
    workers: int = 2,
    progress: bool = False,
    indices: Sequence[int] | None = None,
    captions: int | None = None,
) -> Embedded:
    """Run the photos of a source through the image encoder.

    Args:
        model: the cross-encoder.
        source: photos with captions.
        workers: threads that decode photos.
        progress: show a progress bar.
        indices: of the photos; None takes all.
        captions: the first so many of each photo; None takes all.

    Raises:
        DataError: no photo could be read.
    """
    photos = PhotoPixels(
        model.config.image,
        source,
        workers=workers,
        progress="photos" if progress else None,
        indices=indices,
    )
    batches = [(names, model.embed_photos(pixels)) for names, pixels in photos.pixels()]
    ids = [id for names, _ in batches for id in names]
    if not ids:
        raise photos.none_read()
    captions_of = {item.id: item.captions[:captions] for item in source.items}
    return Embedded(
        image_ids=ids,
        photos=torch.cat([embedded for _, embedded in batches]),
        text_ids=[f"{id}#{number}" for id in ids for number in range(len(captions_of[id]))],
        texts=[text for id in ids for text in captions_of[id]],
        owners=np.repeat(np.arange(len(ids)), [len(captions_of[id]) for id in ids]),
        skipped=photos.skipped,
    )


def evaluate_pairs(model: OneTransformer, embedded: Embedded, progress: bool = False) -> Report:
    """Text to image and image to text by scoring every caption with every photo.

    Raises:
        DataError: there are no captions.
    """
    if not embedded.texts:
        raise DataError("there is no photo with captions to evaluate on")
    texts, photos = len(embedded.texts), len(embedded.image_ids)
    pairs = np.stack(np.divmod(np.arange(texts * photos), photos), axis=1)
    scores = _score(model, embedded, pairs, progress).reshape(texts, photos)
    asking = np.unique(embedded.owners)
    t2i = _ranked(
        embedded.text_ids,
        [embedded.image_ids] * texts,
        scores,
        [{embedded.image_ids[owner]} for owner in embedded.owners],
    )
    i2t = _ranked(
        [embedded.image_ids[row] for row in asking],
        [embedded.text_ids] * len(asking),
        scores.T[asking],
        [{embedded.text_ids[row] for row in np.flatnonzero(embedded.owners == owner)} for owner in asking],
    )
    return Report(
        images=photos,
        captions=texts,
        t2i=recall_at_k(t2i.found, t2i.relevant),
        i2t=recall_at_k(i2t.found, i2t.relevant),
        terms_image=None,
        terms_text=None,
        words_at_10=None,
        skipped=embedded.skipped,
        rankings={"t2i": t2i, "i2t": i2t},
    )


def rerank(
    model: OneTransformer,
    embedded: Embedded,
    first: Report,
    k: int,
    fusion: Fusion = "none",
    weight: float = 0.5,
    progress: bool = False,
) -> Report:
    """A first stage's report with the first k answers of each query in the cross-encoder's order.

    Args:
        model: the cross-encoder.
        embedded: the photos and captions that the first stage was measured on; what is missing there, such
            as photos that cannot be read, stays behind the others.
        first: its report, with rankings.
        k: candidates of a query; those behind them stay where they are.
        fusion, weight: see `lexlip.search.fusion.fuse`.
        progress: show progress bars.
    """
    return reordered(first, candidate_odds(model, embedded, first, k, progress), k, fusion, weight)


def candidate_odds(
    model: OneTransformer, embedded: Embedded, first: Report, k: int, progress: bool = False
) -> Odds:
    """What a cross-encoder says of the first k answers of each query; the arguments are those of `rerank`."""
    row_of_text = {id: row for row, id in enumerate(embedded.text_ids)}
    row_of_image = {id: row for row, id in enumerate(embedded.image_ids)}
    odds: Odds = {}
    for way, ranking in first.rankings.items():
        asking, answering = (row_of_text, row_of_image) if way == "t2i" else (row_of_image, row_of_text)
        pairs = np.array(
            [
                (asking.get(query, -1), answering.get(id, -1))
                for query, found in zip(ranking.queries, ranking.found, strict=True)
                for id in found[:k]
            ],
            dtype=np.int64,
        ).reshape(-1, 2)
        known = (pairs >= 0).all(axis=1)
        scores = np.full(len(pairs), np.nan, np.float32)
        asked = pairs[known] if way == "t2i" else pairs[known, ::-1].copy()
        scores[known] = _score(model, embedded, asked, progress)
        odds[way] = np.split(scores, np.cumsum([len(found[:k]) for found in ranking.found])[:-1])
    return odds


def reordered(first: Report, odds: Odds, k: int, fusion: Fusion = "none", weight: float = 0.5) -> Report:
    """What `rerank` gives, with odds of k candidates or more of each query at hand."""
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
    queries: list[str], documents: Sequence[list[str]], scores: np.ndarray, relevant: list[set[str]]
) -> Ranking:
    order = np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]
    found = [[ids[row] for row in best] for ids, best in zip(documents, order.tolist(), strict=True)]
    return Ranking(queries, found, list(np.take_along_axis(scores, order, axis=1)), relevant)


def _score(model: OneTransformer, embedded: Embedded, pairs: np.ndarray, progress: bool) -> np.ndarray:
    """Log-odds of pairs, int64 [N, 2] (caption, photo): float32 [N]."""
    parts = [np.empty(0, np.float32)]
    with tqdm(total=len(pairs), unit="pair", desc="pairs", disable=not progress or None, delay=2) as bar:
        for start in range(0, len(pairs), PAIRS):
            some = pairs[start : start + PAIRS]
            texts, rows = np.unique(some[:, 0], return_inverse=True)
            here = np.stack([rows, some[:, 1]], axis=1)
            parts.append(model.score_pairs(embedded.photos, [embedded.texts[row] for row in texts], here))
            bar.update(len(some))
    return np.concatenate(parts)
