"""Models of a few thousand parameters, for all tests of the neural half."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from lexlip.config import (
    ImageEncoderConfig,
    ModelConfig,
    ObjectiveConfig,
    TextEncoderConfig,
    VocabularyConfig,
)
from lexlip.encoders.text import load_tokenizer
from lexlip.models.dense import Dense
from lexlip.models.dual_encoder import DualEncoder
from lexlip.models.lexlip import LexLIP
from lexlip.registry import MODELS, load_class
from lexlip.sparse.balance import Bank
from lexlip.sparse.rows import unit_length
from lexlip.sparse.top_words import prune
from lexlip.training.augmentation import Key, Sample
from lexlip.training.batches import Batch, Collate
from lexlip.training.method import Method
from lexlip.words.vocabulary import Vocabulary

CAPTIONS = [
    "two dogs play in the snow",
    "a brown dog jumps over a fence",
    "a man in a red shirt rides a bike",
    "children play football on green grass",
    "a woman holds a small white cat",
    "the boat is on the blue sea, near the beach",
]

TINY = ModelConfig(
    image=ImageEncoderConfig(
        name="vit_tiny_patch16_224",
        options={"patch_size": 8, "embed_dim": 24, "depth": 1, "num_heads": 2},
        size=32,
    ),
    text=TextEncoderConfig(
        tokenizer="captions",
        options={
            "hidden_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 32,
            "max_position_embeddings": 40,
        },
    ),
    vocabulary=VocabularyConfig(kind="words"),
)


WITHOUT_DROPOUT = replace(
    TINY,
    text=replace(
        TINY.text,
        options={**TINY.text.options, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    ),
)


def tiny_balanced(seed: int = 0) -> LexLIP:
    """A LexLIP with a bank of drawn photos and their captions."""
    from lexlip.data import Scenes
    from lexlip.training.packaging import draw_balance

    model = tiny_model(seed=seed)
    model.balance = draw_balance(model, [Scenes(60, seed=9)], workers=0)
    return model


def tiny_model(config: ModelConfig = TINY, seed: int = 0, **changes: Any) -> LexLIP:
    """A random model whose vocabulary is made of CAPTIONS; `changes` replace sections of the config."""
    config = replace(config, **changes)
    torch.manual_seed(seed)
    tokenizer = load_tokenizer(config.text, CAPTIONS)
    vocabulary = Vocabulary.build(config.vocabulary, tokenizer, CAPTIONS)
    model = LexLIP(config, tokenizer, vocabulary)
    with torch.no_grad():  # vectors of a few terms rather than of half the vocabulary or none
        for head in (model.image_head, model.text_head):
            head.decoder.normal_(std=0.5)
            head.bias.fill_(-0.5)
    return model.eval()


def tiny_photos(number: int, size: int = 32, seed: int = 0) -> Tensor:
    """Noise, uint8 [number, 3, size, size]."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (number, 3, size, size), dtype=torch.uint8, generator=generator)


def tiny_dense(config: ModelConfig = TINY, seed: int = 0) -> Dense:
    """A random model of vectors, of 16 real numbers each."""
    config = replace(config, kind="dense")
    torch.manual_seed(seed)
    return Dense(config, load_tokenizer(config.text, CAPTIONS), name="cls").eval()


def tiny_stage(kind: str, config: ModelConfig = TINY, seed: int = 0) -> DualEncoder:
    """A random model of one of the kinds without words."""
    config = replace(config, kind=kind)
    torch.manual_seed(seed)
    model: DualEncoder = load_class(MODELS[kind].implementation)(
        config, load_tokenizer(config.text, CAPTIONS), None, name=kind
    )
    return model.eval()


def tiny_method(objective: ObjectiveConfig, model: DualEncoder | None = None, seed: int = 0) -> Method:
    """A tiny model to train with an objective."""
    model = tiny_model() if model is None else model
    torch.manual_seed(seed)
    return Method(model, words_of(model), objective)


def words_of(model: DualEncoder) -> Vocabulary:
    """Its own lexicon, or for a dense model the words of CAPTIONS."""
    return model.vocabulary or Vocabulary.build(TINY.vocabulary, model.text_encoder.tokenizer, CAPTIONS)


def tiny_batch(
    method: Method,
    owners: tuple[int, ...] = (0, 0, 1, 2, 2, 3, 4),
    epoch: int = 0,
    first_photo: int = 10,
    size: int = 32,
) -> Batch:
    """Photos of noise with captions of CAPTIONS, as the data loader of a run gives them.

    Args:
        method: what the batch is for.
        owners: the row of each caption's photo, ascending.
        epoch: of the masks.
        first_photo: index of the first photo in its source.
        size: pixels.
    """
    photos = tiny_photos(max(owners) + 1, size, seed=first_photo)
    samples = []
    for row, pixels in enumerate(photos):
        captions = tuple(CAPTIONS[(first_photo + t) % 6] for t, owner in enumerate(owners) if owner == row)
        chosen = list(range(len(captions)))
        samples.append(Sample(Key(epoch, first_photo + row, size), pixels, None, chosen, captions))
    return tiny_collate(method.objective, method.model)(samples)


def tiny_collate(objective: ObjectiveConfig, model: DualEncoder) -> Collate:
    """What makes batches for a model of this file."""
    tokenizer = model.text_encoder.tokenizer
    return Collate(objective, tokenizer, model.config.text.max_tokens, words_of(model), seed=0)


def balanced(bank: Bank, vectors: csr_matrix, kept: int | None) -> np.ndarray:
    """Return documents by the definition: what is kept of unit vectors, times the factors of whole ones."""
    units = unit_length(vectors)
    short = units if kept is None else prune(units, kept, bank.units, (units @ bank.columns).toarray())
    return bank.factors(units)[:, None] * short.toarray()


def check_vectors(found: Any, expected: Any) -> None:
    """Vectors, sparse, of torch or of numpy, are nearly equal."""
    plain = [value.toarray() if isinstance(value, csr_matrix) else value for value in (found, expected)]
    arrays = [value.detach().numpy() if isinstance(value, Tensor) else value for value in plain]
    np.testing.assert_allclose(*arrays, rtol=1e-4, atol=1e-5)


def check_same_vectors(loaded: DualEncoder, model: DualEncoder, size: int = 32) -> None:
    """A model that was saved and loaded has the identity and the vectors of the one that was saved."""
    assert type(loaded) is type(model)
    assert not loaded.training
    assert (loaded.identity, loaded.config) == (model.identity, model.config)
    photos = tiny_photos(3, size)
    assert (loaded.encode_image(photos) != model.encode_image(photos)).nnz == 0
    for encoder in ("network", "words") if model.can.words else ("network",):
        assert (loaded.encode_text(CAPTIONS, encoder) != model.encode_text(CAPTIONS, encoder)).nnz == 0
