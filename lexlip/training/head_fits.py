"""Fits the heads of a new model to the training captions and photos, in closed form."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_matrix
from torch import Tensor, nn

from lexlip.data import Source, spread
from lexlip.encoders.lexicon import WordPieces, sparse_vector
from lexlip.machine.progress import ProgressBar
from lexlip.models.dense import Dense
from lexlip.models.lexlip import LexLIP
from lexlip.models.one_transformer import OneTransformer
from lexlip.queries.photo_vectors import PhotoPixels
from lexlip.words.vocabulary import Vocabulary, caption_words

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PROJECTED_PHOTOS = 8000  # that a dense model's projections are fitted with: some for each entry of a state
CAPTIONS = 4000  # enough for a regression onto D directions
BATCH = 64  # captions encoded at a time
WORDS = 5  # whose embeddings a photo token is fitted to
POSITIONS = 4000  # enough for two means
NEIGHBOURS = 10  # about how many words besides its own a position starts with
OWN_LOGIT = 0.7  # of a position's own word at the start: p = log(1 + 0.7) = 0.53
RIDGE = 1e-3  # relative to the mean variance of a state's entries
LINEAR = 3.0  # where GELU is the identity, for inputs of standard deviation 1


def caption_matrix(
    vocabulary: Vocabulary, tokenizer: PreTrainedTokenizerBase, captions: Sequence[str]
) -> csr_matrix:
    """Return which words each of N captions has, float32 [N, V] of zeros and ones."""
    held = [sorted(columns) for columns in caption_words(vocabulary, tokenizer, captions)]
    starts = np.cumsum([0, *map(len, held)])
    columns = np.array([column for row in held for column in row], dtype=np.int32)
    return csr_matrix((np.ones(len(columns), np.float32), columns, starts), (len(held), len(vocabulary)))


def inverse_document_frequency(model: LexLIP, captions: Sequence[str]) -> Tensor:
    """Return log(1 + N / (1 + df)) of each word over N captions, [V], divided by its mean."""
    frequency = caption_matrix(model.vocabulary, model.tokenizer, captions).getnnz(axis=0)
    weights = torch.log1p(len(captions) / (1 + torch.from_numpy(frequency)))
    return weights / weights.mean()


def companions(model: LexLIP, captions_of: Sequence[Sequence[str]], number: int) -> Tensor:
    """Return the words that are most related to each word, int32 [V, number], best first.

    A companion of w is a word that a person who wrote w would also accept for the same photo. The companions
    have the highest t-score: how much more often than by chance they occur in any caption of the photos
    whose captions contain w (Church et al., 1991). A word with fewer companions has itself in their place.
    `captions_of` has the captions of each photo.
    """
    captions = [caption for texts in captions_of for caption in texts]
    size = len(model.vocabulary)
    in_caption = caption_matrix(model.vocabulary, model.tokenizer, captions).astype(np.float64)
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

    Returns False, with unchanged heads, if no caption contains a word of the lexicon or the encoder's states
    do not tell words apart.
    """
    was_training = model.training
    model.eval()
    states, columns = _states_of_words(model, captions[:: max(1, len(captions) // CAPTIONS)], progress)
    model.train(was_training)
    if not len(columns):
        return False
    head = copy.deepcopy(model.text_head)
    directions = F.normalize(head.decoder - head.decoder.mean(dim=0), dim=1)
    weight, bias = ridge(head.project(states), directions[columns], 1 / columns.bincount()[columns].sqrt())
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
    """Fit a new dense model's projections so that a photo's vector starts near those of its captions.

    A caption's vector starts as its state minus the mean over all captions. A ridge regression maps photos'
    states to the mean vectors of their captions. This gives a dense model what fitted heads give to LexLIP.
    Cosines do not see a vector's scale, but the optimizer's steps do: weights get the size of fresh ones.
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
    vectors = torch.from_numpy(model.encode_text([c for id in readable for c in captions_of[id]]).toarray())
    text.bias.copy_(-vectors.mean(dim=0))
    model.train(was_training)

    counts = [len(captions_of[id]) for id in readable]
    means = torch.stack([part.mean(dim=0) for part in vectors.split(counts)]) + text.bias
    weight, bias = ridge(torch.cat(states), means)
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
    position, averaged by weight. `model` has the encoders of the trained `words`; `photos` are batches uint8
    [B, 3, S, S], a few hundred photos in all.
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
    weight, bias = ridge(torch.cat(inputs), torch.cat(targets))
    model.image_projection.weight.copy_(embeddings.std() * weight)
    model.image_projection.bias.copy_(embeddings.std() * bias)
    norm = getattr(model.text_encoder.body.embeddings, "LayerNorm", None)
    if norm is not None:
        model.image_norm.load_state_dict(norm.state_dict())


def ridge(inputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return weight [D, D_in] and bias [D] of a ridge regression, maybe weighted; outputs have variance 1."""
    x = torch.cat([inputs, inputs.new_ones(len(inputs), 1)], dim=1).double()
    weighted = x if weights is None else x * weights[:, None]
    gram = weighted.t() @ x
    gram += RIDGE * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
    solution = torch.linalg.solve(gram, weighted.t() @ targets.double())
    solution /= (x @ solution).std()
    return solution[:-1].t().float(), solution[-1].float()


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
