"""Retrieval quality of a model on captioned photos, both ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, vstack

from lexlip.data import Skipped, Source
from lexlip.encoding import PhotoVectors, encode_captions
from lexlip.errors import DataError
from lexlip.evaluation.recall import recall_at_k, words_at_10
from lexlip.models.lexlip import LexLIP, QueryEncoder
from lexlip.search.engines import Engine
from lexlip.sparse.topk import topk
from lexlip.vocabulary import tokenize_captions

EngineOf = Callable[[Sequence[str], csr_matrix], AbstractContextManager[Engine]]
"""Makes an engine that holds the documents with these ids and these (top-K) vectors."""


@dataclass(frozen=True)
class Report:
    """What `evaluate` measures: recalls in percent, mean numbers of terms before top-K, words@10."""

    images: int
    captions: int
    t2i: dict[str, float]
    i2t: dict[str, float]
    terms_image: float
    terms_text: float
    words_at_10: float
    skipped: list[Skipped]

    @property
    def mean_recall(self) -> float:
        """Mean of R@1, R@5 and R@10 of both directions."""
        return float(np.mean([*self.t2i.values(), *self.i2t.values()]))

    def to_dict(self) -> dict[str, Any]:
        return {
            "images": self.images,
            "captions": self.captions,
            "t2i": self.t2i,
            "i2t": self.i2t,
            "terms_image": self.terms_image,
            "terms_text": self.terms_text,
            "words@10": self.words_at_10,
        }


def evaluate(
    model: LexLIP,
    source: Source,
    engine_of: EngineOf,
    topk_terms: int | None = None,
    query_encoder: QueryEncoder = "network",
    workers: int = 2,
    progress: bool = False,
) -> Report:
    """Text-to-image: captions search the photos. Image-to-text: photos search the captions.

    Args:
        model: the encoders.
        source: photos with captions; photos without any are documents that no caption asks for.
        engine_of: makes the search engine for a set of documents.
        topk_terms: terms that a document keeps, as at index time; None keeps all.
        query_encoder: how captions are encoded, see `LexLIP.encode_text`.
        workers: processes that decode photos.
        progress: show a progress bar.

    Raises:
        DataError: there are no captions, or no photo could be read.
    """
    photos = PhotoVectors(model, source, workers=workers, progress="photos" if progress else None)
    encoded = list(photos)
    ids = [id for batch, _ in encoded for id in batch]
    captions_of = {item.id: item.captions for item in source.items}
    owners = [id for id in ids for _ in captions_of[id]]
    texts = [caption for id in ids for caption in captions_of[id]]
    if not texts:
        raise DataError(f"{source.name} has no photo with captions to evaluate on")
    text_ids = [f"{number}" for number in range(len(texts))]
    texts_of: dict[str, set[str]] = {id: set() for id in ids}
    for text_id, owner in zip(text_ids, owners, strict=True):
        texts_of[owner].add(text_id)

    images = vstack([vectors for _, vectors in encoded], format="csr")
    captions = encode_captions(model, texts, query_encoder, progress="captions" if progress else None)
    with engine_of(ids, topk(images, topk_terms)) as engine:
        found, _ = engine.search(captions, 10)
        t2i = recall_at_k(found, [{owner} for owner in owners])
    asking = [row for row, id in enumerate(ids) if texts_of[id]]
    with engine_of(text_ids, topk(captions, topk_terms)) as engine:
        found, _ = engine.search(images[asking], 10)
        i2t = recall_at_k(found, [texts_of[ids[row]] for row in asking])

    tokenizer = model.text_encoder.tokenizer
    tokens = [
        {t for line in tokenize_captions(tokenizer, captions_of[ids[row]]) for t in line} for row in asking
    ]
    return Report(
        images=len(ids),
        captions=len(texts),
        t2i=t2i,
        i2t=i2t,
        terms_image=images.nnz / images.shape[0],
        terms_text=captions.nnz / captions.shape[0],
        words_at_10=words_at_10(images[asking], model.vocabulary, tokens, tokenizer.all_special_ids),
        skipped=photos.skipped,
    )
