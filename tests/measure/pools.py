"""A pool of photos and captions as vectors, made by hand."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from lexlip.measure.pool import CaptionedPool, PoolVectors
from lexlip.registry import Metric

WORDS = [*"abcdefghijklmnopqrst"]


@dataclass(frozen=True)
class NoModel:
    """Stands for the model of vectors that none has made."""

    name: str = "none"
    metric: Metric = "cosine"
    vocabulary: None = None
    balance: None = None


def pool_of(owners: list[int], texts: list[str], photos: int, text_queries: int) -> CaptionedPool:
    """Photos 0.jpg, 1.jpg, ...; `owners` are the photos of the captions."""
    return CaptionedPool(
        image_ids=[f"{photo}.jpg" for photo in range(photos)],
        text_ids=[f"{owner}.jpg#{row}" for row, owner in enumerate(owners)],
        texts=texts,
        owners=np.array(owners, np.int64),
        text_queries=text_queries,
        skipped=[],
    )


def make_pool(
    photos: int = 40, queries: int = 10, captions: int = 3, metric: Metric = "cosine", seed: int = 0
) -> PoolVectors:
    """Photos of random words; those that are queries and every third of the others have captions.

    A caption is the text of four words of its photo, one of which may be another, and their vector.
    """
    rng = np.random.default_rng(seed)
    images = rng.random((photos, 20)) * (rng.random((photos, 20)) < 0.4)
    images[:, 0] += 0.1  # no photo is without words
    texts, rows, owners = [], [], []
    for photo in range(photos):
        for _ in range(captions if photo < queries or photo % 3 == 0 else 0):
            chosen = np.append(rng.choice(np.flatnonzero(images[photo]), 3), rng.integers(20))
            texts.append(" ".join(f"word{WORDS[word]}" for word in chosen))
            rows.append(np.bincount(chosen, minlength=20) * rng.random(20))
            owners.append(photo)
    model: Any = NoModel(metric=metric)
    return PoolVectors(
        pool_of(owners, texts, photos, queries * captions),
        model,
        images=csr_matrix(images.astype(np.float32)),
        captions=csr_matrix(np.array(rows, dtype=np.float32)),
    )
