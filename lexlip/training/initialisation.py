"""The model at the start of a run: new, or from a checkpoint, perhaps with words of the run's captions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lexlip.config import Config, ModelConfig
from lexlip.config_files import to_dict
from lexlip.data import Source, spread
from lexlip.encoders.lexicon import BagOfWords, LexiconHead, WordPieces
from lexlip.encoders.text import load_tokenizer
from lexlip.errors import ConfigError
from lexlip.machine.progress import ProgressBar
from lexlip.models.dense import Dense
from lexlip.models.dual_encoder import DualEncoder
from lexlip.models.lexlip import LexLIP
from lexlip.models.load import load_initial
from lexlip.models.model_folder import kind_of
from lexlip.models.one_transformer import OneTransformer
from lexlip.queries.photo_vectors import PhotoPixels
from lexlip.registry import MODELS, load_class
from lexlip.training.head_fits import (
    companions,
    fit_image_tokens,
    fit_projections,
    fit_text_head,
    inverse_document_frequency,
    ridge,
)
from lexlip.words.vocabulary import Vocabulary, frequent_words

COUNTED_PHOTOS = 500_000  # whose captions' words are counted; enough for any larger collection
FITTED_PHOTOS = 256  # that the projection of photo tokens is fitted with


def make_model(config: Config, train: Source, progress: bool = False) -> tuple[DualEncoder, Vocabulary]:
    """Return the model at the start of a run, and the words that masked positions are predicted among.

    It starts from `config.init` if that is given; the captions of `train` give the vocabulary. LexLIPError:
    the model cannot be made, or `init` is another model than the config describes.
    """
    if config.init is None:
        model, vocabulary = _new_model(config, train, progress)
        _check_pooling(model)
        return model, vocabulary
    model = continued_model(config.init, config.model)
    _check_pooling(model)
    model.name = config.name
    if model.vocabulary is not None:
        return model, model.vocabulary
    if model.can.photo_tokens and MODELS[kind_of(config.init)].words:
        few = PhotoPixels(model.config.image, train, indices=spread(len(train), FITTED_PHOTOS))
        photos = [pixels for _, pixels in few.pixels()]
        assert isinstance(model, OneTransformer)
        fit_image_tokens(model, LexLIP.from_pretrained(config.init), photos)
    captions = [caption for texts in counted_captions(train, config.seed) for caption in texts]
    return model, Vocabulary.build(config.model.vocabulary, model.tokenizer, captions)


def continued_model(init: str, config: ModelConfig) -> DualEncoder:
    """Load `init` as a model of a config, at the config's size."""
    model = load_initial(init, config)
    check_agreement(init, config, model.config)
    if model.config.image.size != config.image.size:
        model.resize(config.image.size)
    model.mirror(config.image.mirror)
    model.balance = model.keywords = model.likely = model.honest_end = None  # of the weights before
    if model.can.photo_tokens:
        model.config = replace(model.config, pooling=config.pooling)
    return model


def _new_model(config: Config, train: Source, progress: bool) -> tuple[DualEncoder, Vocabulary]:
    captions_of = counted_captions(train, config.seed)
    captions = [caption for texts in captions_of for caption in texts]
    tokenizer = load_tokenizer(config.model.text, captions)
    vocabulary = Vocabulary.build(config.model.vocabulary, tokenizer, captions)
    cls = load_class(MODELS[config.model.kind].implementation)
    model: DualEncoder = cls(config.model, tokenizer, vocabulary, name=config.name)
    if model.can.words:
        assert isinstance(model, LexLIP)
        m = config.model.companions
        columns = companions(model, captions_of, m) if m else None
        model.bag_of_words.set_weights(inverse_document_frequency(model, captions), columns)
        fit = config.model.head == "fitted" or (config.model.head == "auto" and not model.starts_trained)
        if fit and not fit_text_head(model, captions, progress) and progress:
            why = "the text encoder's states do not tell words apart: the heads start at random"
            ProgressBar.write(why, sys.stderr)
    elif config.model.head == "fitted":
        if type(model) is not Dense:
            raise ConfigError(
                f"model.head=fitted is for lexlip and dense models, and model.kind={config.model.kind} has no"
                " head to fit; set it to auto"
            )
        fit_projections(model, train, progress)
    return model, vocabulary


def counted_captions(train: Source, seed: int) -> list[tuple[str, ...]]:
    """Return the captions that words are counted in: of each photo, or of COUNTED_PHOTOS drawn ones."""
    rows = train.captioned()
    if len(rows) > COUNTED_PHOTOS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, COUNTED_PHOTOS, replace=False))
    return [train.items[row].captions for row in rows.tolist()]


def check_agreement(init: str, config: ModelConfig, saved: ModelConfig) -> None:
    """Raise ConfigError unless the config describes the model of `init`.

    Free to differ are the photos' size and whether they are mirrored, where weights and tokenizer came from,
    how the heads started, and for models that run photo tokens through the text encoder which tokens a
    vector is made of.
    """
    asked, had = _flat(to_dict(config)), _flat(to_dict(saved))
    free = {"kind", "image.weights", "image.size", "image.mirror", "text.name", "text.tokenizer", "head"}
    if MODELS[config.kind].photo_tokens or config.pooling is None:
        free.add("pooling")
    asked["metric"], had["metric"] = config.compared_by, saved.compared_by
    for key in asked.keys() - free:
        if asked[key] != had[key]:
            raise ConfigError(f"model.{key} is {asked[key]}, but init={init} was trained with {had[key]}")


def _check_pooling(model: DualEncoder) -> None:
    """Raise ConfigError if a vector would be the state of a photo's top left cell."""
    config, prefix = model.config, model.image_encoder.prefix_tokens
    if model.can.photo_tokens and config.pooling == "cls" and not (config.framed_photos or prefix):
        raise ConfigError(
            f"model.pooling=cls takes the first token of a photo, and '{config.image.name}' has no [CLS]; set"
            " model.framed_photos=true, or model.pooling=mean"
        )


def _flat(model: dict[str, Any]) -> dict[str, Any]:
    """Return the model section with the keys of its subsections as "image.size"."""
    flat: dict[str, Any] = {}
    for key, value in model.items():
        flat |= {f"{key}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {key: value}
    return flat


# ---- new words: those of a folder's own captions can then be found ----


def add_words(model: LexLIP, captions_of: Sequence[Sequence[str]], min_count: int) -> tuple[str, ...]:
    """Add the content words that captions hold `min_count` times to a model's vocabulary; return them.

    The words that it has keep their columns and weights: a vector of the new model is one of the old model,
    with entries added at its end. A head's row of a new word is what a ridge regression from the embeddings
    of the old words (the means of their pieces) to their rows makes of the new word's embedding. Its bias is
    the mean of the others', and so is its weight without a network. Its companions are those of a new model.
    The heads must read tokens (`model.joint` is 0). `captions_of` has the captions of each photo.
    """
    captions = [caption for texts in captions_of for caption in texts]
    old = model.vocabulary
    known = set(old.words)
    found = frequent_words(model.tokenizer, captions, min_count)
    new = tuple(word for word in found if word not in known)
    if not new:
        return ()
    model.vocabulary = Vocabulary.from_words((*old.words, *new), model.tokenizer)
    model.dimensions = len(model.vocabulary)
    with torch.no_grad():
        embeddings = WordPieces(model.vocabulary)(model.text_encoder.word_embeddings)
        for head in (model.text_head, model.image_head):
            _extend_head(head, embeddings)
        number = model.config.companions
        columns = companions(model, captions_of, number)[len(old) :] if number else None
        _extend_bag(model.bag_of_words, len(new), columns)
    return new


def _extend_head(head: LexiconHead, embeddings: Tensor) -> None:
    """Give a head of the first words rows for all words, whose embeddings are [V, D]."""
    decoder, number = head.decoder.detach(), len(embeddings) - len(head.decoder)
    weight, bias = ridge(embeddings[: len(decoder)], decoder)
    rows = (embeddings[len(decoder) :] @ weight.t() + bias) * decoder.std()
    head.decoder = nn.Parameter(torch.cat([decoder, rows]))
    head.bias = nn.Parameter(torch.cat([head.bias.detach(), head.bias.mean().expand(number)]))


def _extend_bag(bag: BagOfWords, number: int, columns: Tensor | None) -> None:
    """Give so many more words the mean weight, and their companions, int [number, m], a twentieth of it."""
    weight = bag.weight.detach()
    mean = weight.mean()
    bag.weight = nn.Parameter(torch.cat([weight, mean.expand(number)]))
    if columns is not None:
        bag.columns = torch.cat([bag.columns, columns.to(bag.columns)])
        values = (0.05 * F.softplus(mean)).expand(columns.shape)
        bag.values = nn.Parameter(torch.cat([bag.values.detach(), values]))
