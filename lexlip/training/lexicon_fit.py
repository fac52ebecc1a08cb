"""Gives a dense dual encoder words: lexicon heads in closed form, from captions alone.

A caption's words are a linear function of its vector, by ridge regression. Photos get the same function, as
they lie in the same space. There the two modalities lie apart; the mean of photos, which removes that gap,
needs some photos without captions.

Shapes: N captions, V words, D entries of a dense vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from lexlip.config import VocabularyConfig
from lexlip.data import Source, spread
from lexlip.encoders.lexicon import sparse_vector
from lexlip.errors import DataError, ModelError
from lexlip.models.clip import Clip
from lexlip.models.dense import Dense
from lexlip.models.dual_encoder import to_rows
from lexlip.models.lexlip import LexLIP
from lexlip.models.load import load_model
from lexlip.models.model_folder import kind_of
from lexlip.models.pretrained import Pretrained
from lexlip.models.siglip import SigLIP
from lexlip.models.towers import Towers, of_dense, of_transformers
from lexlip.queries.photo_vectors import PhotoVectors, encode_captions
from lexlip.registry import MODELS
from lexlip.sparse.balance import NEAREST
from lexlip.training.head_fits import caption_matrix, inverse_document_frequency
from lexlip.training.packaging import CAPTIONS, balance_of
from lexlip.words.vocabulary import Vocabulary

LEAST_CAPTIONS = 1_000  # some ten thousands are better
MOST_CAPTIONS = 100_000  # enough for a regression onto D entries
MOST_PHOTOS = 1_000  # enough for a mean
MIN_COUNT = 4  # how often a word must occur, as in the configs of training
RIDGE = 1.0  # relative to the mean variance of a vector's entries
TEXT_WORDS, PHOTO_WORDS = 64, 128  # that vectors have on average
SAMPLE = 2_000  # captions whose words are counted for that

Floats = NDArray[np.float32]


def load_towers(name: str | Path, device: str = "cpu") -> Dense | Pretrained:
    """Load a dense model onto a device; ModelError: it is none. ConfigError: there is no such device."""
    kind = kind_of(name)
    if kind not in MODELS or (MODELS[kind].trained_here and kind != "dense"):
        words = kind in MODELS and MODELS[kind].words
        why = f"is of kind {kind}" + (", which has words already" if words else "")
        raise ModelError(f"'{name}' {why}: give a CLIP, a SigLIP or a model of kind dense")
    model = load_model(name, device)
    assert isinstance(model, Dense | Pretrained)
    return model


def towers_of(dense: Dense | Pretrained) -> Towers:
    """Return what a LexLIP takes of a dense model; ModelError: it cannot have its encoders."""
    if isinstance(dense, Dense):
        return of_dense(dense)
    if isinstance(dense, Clip | SigLIP):
        return of_transformers(dense)
    from lexlip.models.open_clip import OpenClip, of_open_clip

    assert isinstance(dense, OpenClip)
    return of_open_clip(dense)


def make_lexicon(
    dense: Dense | Pretrained,
    captions: Sequence[str],
    photos: Source | None,
    name: str,
    progress: bool = False,
) -> LexLIP:
    """Return a LexLIP, called `name`, with the encoders of a dense model and fitted words.

    Of more than MOST_CAPTIONS captions, evenly spread ones are taken, and of more than MOST_PHOTOS photos
    too. Photos give the mean of photos' vectors, and balance documents (see `lexlip.sparse.balance`); None
    takes the mean of captions' vectors in its place.

    DataError: there are fewer than LEAST_CAPTIONS captions, or too few photos can be read. ModelError: no
    word occurs often enough, or the encoders cannot be used.
    """
    if len(captions) < LEAST_CAPTIONS:
        raise DataError(
            f"{len(captions):,} captions are too few to fit words to: give at least {LEAST_CAPTIONS:,},"
            " better some ten thousand"
        )
    captions = [captions[row] for row in spread(len(captions), MOST_CAPTIONS)]
    towers = towers_of(dense)
    vocabulary = Vocabulary.build(VocabularyConfig("words", MIN_COUNT), towers.tokenizer, captions)
    model = towers.lexlip(vocabulary, name)
    seen = None if photos is None else _photo_vectors(dense, photos, progress)
    vectors = unit(encode_captions(dense, captions, progress="captions" if progress else None).toarray())
    mean = vectors.mean(axis=0)
    decoder, text_bias, photo_bias = fit_words(
        vectors - mean, caption_matrix(vocabulary, towers.tokenizer, captions)
    )
    means = mean, mean if seen is None else seen.mean(axis=0)
    with torch.no_grad():
        heads: list[Any] = [model.text_head, model.image_head]
        for head, center, bias in zip(heads, means, (text_bias, photo_bias), strict=True):
            for parameter, values in ((head.mean, center), (head.decoder, decoder), (head.bias, bias)):
                parameter.copy_(torch.from_numpy(values))
        model.bag_of_words.set_weights(inverse_document_frequency(model, captions))
        if seen is not None:
            some = vectors[list(spread(len(vectors), CAPTIONS))]
            rows = [
                to_rows(sparse_vector(head.logits(torch.from_numpy(joint))))
                for head, joint in zip(heads, (some, seen), strict=True)
            ]
            model.balance = balance_of(*rows)
    return model


def fit_words(vectors: Floats, words: csr_matrix) -> tuple[Floats, Floats, Floats]:
    """Fit the words of captions, Y [N, V], 1 where one has a word, to vectors X [N, D] minus their mean.

    With the share p_w of captions that have word w, the ridge regression is B = (XᵀX + λI)⁻¹ XᵀY. The
    estimate that w belongs to vector x, p_w + B_w · x, is divided by √p_w: rare words say more, but are
    estimated less well. A logit is that less a threshold, scaled as in `lexlip.encoders.lexicon.PooledHead`.

    Returns the decoder [V, D]; the biases [V] with which captions have TEXT_WORDS words on average, and with
    which they would have PHOTO_WORDS.
    """
    gram = (vectors.T @ vectors).astype(np.float64)
    gram += RIDGE * gram.trace() / len(gram) * np.eye(len(gram))
    share = np.maximum(np.asarray(words.mean(axis=0), dtype=np.float64).ravel(), 1 / len(vectors))
    solution = np.linalg.solve(gram, (words.T @ vectors).T.astype(np.float64))  # B, [D, V]
    decoder = (solution.T / np.sqrt(share)[:, None]).astype(np.float32)
    raw = vectors[list(spread(len(vectors), SAMPLE))] @ decoder.T
    scale = np.sqrt(len(share)) / np.maximum(np.linalg.norm(raw, axis=1, keepdims=True), 1e-12)
    prior = np.sqrt(share) * scale.mean()
    logits = raw * scale + prior
    thresholds = (np.quantile(logits, max(0.0, 1 - kept / len(share))) for kept in (TEXT_WORDS, PHOTO_WORDS))
    text_bias, photo_bias = ((prior - threshold).astype(np.float32) for threshold in thresholds)
    return decoder, text_bias, photo_bias


def unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.maximum(lengths, 1e-12)).astype(np.float32)


def _photo_vectors(dense: Dense | Pretrained, photos: Source, progress: bool) -> Floats:
    bar = "photos" if progress else None
    some = PhotoVectors(dense, photos, progress=bar, indices=spread(len(photos), MOST_PHOTOS))
    vectors = [unit(rows.toarray()) for _, rows in some]
    if not vectors:
        raise some.none_read()
    seen = np.concatenate(vectors)
    if len(seen) < NEAREST:
        raise DataError(
            f"{len(seen)} photos in {photos.name} are too few to show where the model has photos:"
            f" give at least {NEAREST}, better a hundred"
        )
    return seen
