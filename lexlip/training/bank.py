"""Draws the captions and photos that a model balances its documents by; see `lexlip.sparse.balance`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_matrix, vstack

from lexlip.data import Source
from lexlip.models.dual_encoder import DualEncoder
from lexlip.queries.photo_vectors import PhotoVectors, encode_captions
from lexlip.sparse.balance import NEAREST, Balance, make_bank
from lexlip.sparse.query_topk import SENTENCE_TOPK
from lexlip.sparse.topk import topk

CAPTIONS, PHOTOS = 8_000, 1_500  # of all sources together
QUERY_TOPK = 64  # words that a photo keeps as a query


def draw_balance(model: DualEncoder, sources: Sequence[Source], seed: int = 0, workers: int = 2) -> Balance:
    """Encode captions and photos of the training data, as many of each source.

    No caption is of one of the photos.

    Args:
        model: the encoders.
        sources: photos with captions.
        seed: of what is drawn.
        workers: threads that decode photos.

    Raises:
        ValueError: there are too few photos with captions.
    """
    rng = np.random.default_rng(seed)
    captions: list[str] = []
    photos: list[csr_matrix] = []
    for source in sources:
        rows = rng.permutation(source.captioned())
        of_photos = rows[: min(PHOTOS // len(sources), len(rows) // 2)]
        of_captions = rows[len(of_photos) :][: CAPTIONS // len(sources)]
        indices = np.sort(of_photos).tolist()
        photos += [
            rows
            for _, rows in PhotoVectors(
                model, source, workers=workers, progress="photos of the bank", indices=indices
            )
        ]
        captions += [str(rng.choice(source.items[row].captions)) for row in of_captions.tolist()]
    number = sum(rows.shape[0] for rows in photos)
    if min(len(captions), number) < NEAREST:
        raise ValueError(f"a bank needs {NEAREST} photos and as many captions of other photos")
    texts = encode_captions(model, captions, progress="captions of the bank")
    return balance_of(texts, vstack(photos, format="csr"))


def balance_of(texts: csr_matrix, images: csr_matrix) -> Balance:
    """Return what the vectors of captions [n, V] and of other photos [m, V] balance by; n, m >= NEAREST."""
    return Balance(
        photos=make_bank(topk(texts, SENTENCE_TOPK), images),
        captions=make_bank(topk(images, QUERY_TOPK), texts),
    )
