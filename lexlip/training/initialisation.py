"""The model at the start of a run: from a checkpoint, or new and fitted to the training captions."""

from __future__ import annotations

import copy
import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_matrix
from torch import Tensor, nn

from lexlip.config import Config, ModelConfig
from lexlip.config_files import to_dict
from lexlip.data import Source, spread
from lexlip.encoders.lexicon import WordPieces, sparse_vector
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
from lexlip.words.vocabulary import Vocabulary, tokenize_captions

COUNTED_PHOTOS = 500_000  # whose captions' words are counted; enough for any larger collection
FITTED_PHOTOS = 256  # that the projection of photo tokens is fitted with
PROJECTED_PHOTOS = 8000  # that a dense model's projections are fitted with: some for each entry of a state
CAPTIONS = 4000  # enough for a regression onto D directions
BATCH = 64  # captions encoded at a time
WORDS = 5  # whose embeddings a photo token is fitted to
POSITIONS = 4000  # enough for two means
NEIGHBOURS = 10  # about how many words besides its own a position starts with
OWN_LOGIT = 0.7  # of a position's own word at the start: p = log(1 + 0.7) = 0.53
RIDGE = 1e-3  # relative to the mean variance of a state's entries
LINEAR = 3.0  # where GELU is the identity, for inputs of standard deviation 1


def make_model(config: Config, train: Source, progress: bool = False) -> tuple[DualEncoder, Vocabulary]:
    """Return the model at the start of a run, and the words that masked positions are predicted among.

    Args:
        config: starts from `config.init` if that is given.
        train: photos whose captions give the vocabulary.
        progress: show progress bars.

    Raises:
        LexLIPError: the model cannot be made, or `init` is another model than the config describes.
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
    _check_agreement(init, config, model)
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


def _check_agreement(init: str, config: ModelConfig, model: DualEncoder) -> None:
    """Raise ConfigError unless the config describes the model of `init`.

    Free to differ are the photos' size and whether they are mirrored, where weights and tokenizer came from,
    how the heads started, and for models that run photo tokens through the text encoder which tokens a
    vector is made of.
    """
    asked, saved = _flat(to_dict(config)), _flat(to_dict(model.config))
    free = {"kind", "image.weights", "image.size", "image.mirror", "text.name", "text.tokenizer", "head"}
    if model.can.photo_tokens or config.pooling is None:
        free.add("pooling")
    for key in asked.keys() - free:
        if asked[key] != saved[key]:
            raise ConfigError(f"model.{key} is {asked[key]}, but init={init} was trained with {saved[key]}")


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


def inverse_document_frequency(model: LexLIP, captions: Sequence[str]) -> Tensor:
    """Return log(1 + N / (1 + df)) of each word over N captions, [V], divided by its mean."""
    counts: Counter[int] = Counter()
    for ids in tokenize_captions(model.text_encoder.tokenizer, captions):
        counts.update(set(model.vocabulary.columns(ids)))
    frequency = torch.tensor([counts[column] for column in range(len(model.vocabulary))])
    weights = torch.log1p(len(captions) / (1 + frequency))
    return weights / weights.mean()


def companions(model: LexLIP, captions_of: Sequence[Sequence[str]], number: int) -> Tensor:
    """Return the words that are most related to each word, int32 [V, number], best first.

    A companion of w is a word that a person who wrote w would also accept for the same photo. The companions
    have the highest t-score: how much more often than by chance they occur in any caption of the photos
    whose captions contain w (Church et al., 1991). A word with fewer companions has itself in their place.

    Args:
        model: a new model.
        captions_of: the captions of each photo.
        number: of companions of a word.
    """
    captions = [caption for texts in captions_of for caption in texts]
    tokens = tokenize_captions(model.text_encoder.tokenizer, captions)
    held = [sorted(set(model.vocabulary.columns(ids))) for ids in tokens]
    starts = np.cumsum([0, *map(len, held)])
    words = np.concatenate([np.array(columns, dtype=np.int64) for columns in held])
    size = len(model.vocabulary)
    in_caption = csr_matrix((np.ones(len(words)), words, starts), shape=(len(captions), size))
    photo = np.repeat(np.arange(len(captions_of)), [len(texts) for texts in captions_of])
    members = csr_matrix((np.ones(len(photo)), (photo, np.arange(len(photo)))))
    in_photo = (members @ in_caption).sign()[photo]  # of each caption's photo
    together = csr_matrix(in_caption.T @ in_photo)
    expected = np.asarray(in_caption.sum(axis=0)).ravel(), np.asarray(in_photo.mean(axis=0)).ravel()
    found = np.tile(np.arange(size, dtype=np.int32)[:, None], number)
    for word in range(size):
        row = slice(together.indptr[word], together.indptr[word + 1])
        others, counts = together.indices[row], together.data[row]
        scores = (counts - expected[0][word] * expected[1][others]) / np.sqrt(counts)
        scores[others == word] = -1
        best = np.argsort(-scores, kind="stable")[:number]
        best = best[scores[best] > 0]
        found[word, : len(best)] = others[best]
    return torch.from_numpy(found)


@torch.no_grad()
def fit_text_head(model: LexLIP, captions: Sequence[str], progress: bool = False) -> bool:
    """Fit the text head so that a caption's vector is its own words and, with less weight, their neighbours.

    This is for text encoders without a masked-language-model head, such as those of sentence-transformers.
    A ridge regression gives the head's dense layer. It maps the states of words in captions to the
    directions of their embeddings (minus the mean embedding); rare words count as much as frequent ones.
    GELU is used where it is linear, and LayerNorm removes the shift again. The decoder, from which both
    heads start, holds these directions, scaled together with the bias so that a position has its own word
    at OWN_LOGIT and NEIGHBOURS more words above 0. The image head's bias stays 0, so that every word can be
    reached at first.

    Args:
        model: a new model.
        captions: of the training photos; some of them are enough.
        progress: show a progress bar, as it can take some seconds.

    Returns:
        False, with unchanged heads, if no caption contains a word of the lexicon or the encoder's states
        do not tell words apart; else True.
    """
    was_training = model.training
    model.eval()
    states, columns = _states_of_words(model, captions[:: max(1, len(captions) // CAPTIONS)], progress)
    model.train(was_training)
    if not len(columns):
        return False
    head = copy.deepcopy(model.text_head)
    directions, rarity = _directions(head.decoder), 1 / columns.bincount()[columns].sqrt()
    weight, bias = ridge(head.project(states), directions[columns], rarity)
    head.dense.weight.copy_(weight)
    head.dense.bias.copy_(bias + LINEAR)

    some = slice(None, None, max(1, len(columns) // POSITIONS))
    logits, column = head.hidden(states[some]) @ directions.t(), columns[some, None]  # [n, V], [n, 1]
    own, others = logits.gather(1, column).mean(), logits.scatter(1, column, float("-inf"))
    neighbours = min(NEIGHBOURS, len(directions) // 100)
    threshold = others.topk(min(neighbours + 1, others.shape[1])).values[:, -1].mean()
    if not own > threshold:
        return False
    scale = OWN_LOGIT / (own - threshold)
    head.decoder.copy_(scale * directions)
    head.bias.fill_(-scale * threshold)
    model.text_head.load_state_dict(head.state_dict())
    model.image_head.decoder.copy_(head.decoder)
    return True


@torch.no_grad()
def fit_projections(model: Dense, train: Source, progress: bool = False) -> None:
    """Fit a dense model's projections so that a photo's vector starts near those of its captions.

    A caption's vector starts as its state minus the mean over all captions. A ridge regression maps photos'
    states to the mean vectors of their captions. This gives a dense model what fitted heads give to LexLIP.
    Cosines do not see a vector's scale, but the optimizer's steps do: weights get the size of fresh ones.

    Args:
        model: a new model.
        train: photos with captions; some of them are enough.
        progress: show a progress bar.

    Raises:
        DataError: no photo can be read.
    """
    captioned = train.captioned()
    rows = captioned[list(spread(len(captioned), PROJECTED_PHOTOS))].tolist()
    captions_of = {train.items[row].id: train.items[row].captions for row in rows}
    what = "fitting the projections" if progress else None
    photos = PhotoPixels(model.config.image, train, indices=rows, progress=what)
    was_training = model.training
    model.eval()
    readable, states = list[str](), list[Tensor]()
    for ids, pixels in photos.pixels():
        readable += ids
        states.append(model.pooled_image(model.image_encoder(pixels)))
    if not readable:
        raise photos.none_read()
    text = cast(nn.Linear, model.text_projection)
    text.weight.copy_(torch.eye(model.dimensions))
    text.bias.zero_()
    captions = [caption for id in readable for caption in captions_of[id]]
    vectors = torch.from_numpy(model.encode_text(captions).toarray())
    text.bias.copy_(-vectors.mean(dim=0))
    model.train(was_training)

    counts = [len(captions_of[id]) for id in readable]
    means = torch.stack([part.mean(dim=0) for part in vectors.split(counts)]) + text.bias
    weight, bias = ridge(torch.cat(states), means, torch.ones(len(means)))
    image = cast(nn.Linear, model.image_projection)
    image.weight.copy_(weight)
    image.bias.copy_(bias)
    for projection in (text, image):
        fresh = 1 / math.sqrt(3 * projection.in_features)  # root mean square of torch's fresh weights
        scale = fresh / projection.weight.square().mean().sqrt()
        projection.weight.mul_(scale)
        projection.bias.mul_(scale)


@torch.no_grad()
def fit_image_tokens(model: OneTransformer, words: LexLIP, photos: Sequence[Tensor]) -> None:
    """Fit the projection of photo tokens so that a token looks like the words that LexLIP sees there.

    Attention between a word and a patch that shows it then starts like attention between two equal words. A
    ridge regression maps the image encoder's states to the embeddings of the WORDS heaviest words of each
    position, averaged by weight.

    Args:
        model: a new model with the encoders of `words`.
        words: a trained LexLIP.
        photos: batches of photos, uint8 [B, 3, S, S]; a few hundred photos are enough.
    """
    embeddings = WordPieces(words.vocabulary)(words.text_encoder.word_embeddings)
    head, inputs, targets = words.image_head, [], []
    for pixels in photos:
        states = words.image_encoder(pixels).flatten(0, 1)  # [N P, D_image]
        weights = sparse_vector(head.hidden(states) @ head.decoder.t() + head.bias).topk(WORDS, dim=1)
        total = weights.values.sum(dim=1)
        seen = total > 0
        shares = weights.values[seen] / total[seen, None]
        inputs.append(states[seen])
        targets.append((shares[:, :, None] * embeddings[weights.indices[seen]]).sum(dim=1))
    if not any(map(len, inputs)):
        return
    states, means = torch.cat(inputs), torch.cat(targets)
    weight, bias = ridge(states, means, torch.ones(len(states)))
    model.image_projection.weight.copy_(embeddings.std() * weight)
    model.image_projection.bias.copy_(embeddings.std() * bias)
    norm = getattr(model.text_encoder.body.embeddings, "LayerNorm", None)
    if norm is not None:
        model.image_norm.load_state_dict(norm.state_dict())


def _states_of_words(model: LexLIP, captions: Sequence[str], progress: bool) -> tuple[Tensor, Tensor]:
    """Return the states [N, D_in] of tokens that are words, and these words' columns, int64 [N]."""
    encoder = model.text_encoder
    states, columns = [torch.empty(0, encoder.width)], [torch.empty(0, dtype=torch.int64)]
    starts = range(0, len(captions), BATCH)
    for start in ProgressBar(starts, "fitting the heads", unit="batch", delay=2, disable=not progress):
        ids, mask = encoder.tokenize(captions[start : start + BATCH])
        found = torch.from_numpy(model.vocabulary.lookup(ids.numpy()))
        known = mask & (found >= 0)
        states.append(encoder(ids, mask)[known])
        columns.append(found[known])
    return torch.cat(states), torch.cat(columns)


def _directions(embeddings: Tensor) -> Tensor:
    """Return unit vectors [V, D] of embeddings minus their mean."""
    return F.normalize(embeddings - embeddings.mean(dim=0), dim=1)


def ridge(inputs: Tensor, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return weight [D, D_in] and bias [D] of a weighted ridge regression with outputs of unit variance."""
    x = torch.cat([inputs, inputs.new_ones(len(inputs), 1)], dim=1).double()
    weighted = x * weights[:, None]
    gram = weighted.t() @ x
    gram += RIDGE * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
    solution = torch.linalg.solve(gram, weighted.t() @ targets.double())
    solution /= (x @ solution).std()
    return solution[:-1].t().float(), solution[-1].float()
