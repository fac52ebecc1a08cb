"""What a new model takes from the training captions, or from another model, before its first step."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_matrix
from torch import Tensor
from tqdm import tqdm

from lexlip.encoders.lexicon import sparse_vector
from lexlip.models.lexlip import LexLIP
from lexlip.models.one_transformer import OneTransformer
from lexlip.vocabulary import tokenize_captions

CAPTIONS = 4000  # enough for a regression onto D directions
BATCH = 64  # captions encoded at a time
WORDS = 5  # that a token of a photo is seen as
POSITIONS = 4000  # enough for two means
NEIGHBOURS = 10  # words besides its own that a position starts with, about
OWN_LOGIT = 0.7  # of a position's own word at the start: p = log(1 + 0.7) = 0.53
RIDGE = 1e-3  # of the mean variance of a state's entries
LINEAR = 3.0  # where GELU is the identity, for inputs of standard deviation 1


def inverse_document_frequency(model: LexLIP, captions: Sequence[str]) -> Tensor:
    """log(1 + N / (1 + df)) of each word over N captions, [V], divided by its mean."""
    counts: Counter[int] = Counter()
    for ids in tokenize_captions(model.text_encoder.tokenizer, captions):
        counts.update(set(model.vocabulary.columns(ids)))
    frequency = torch.tensor([counts[column] for column in range(len(model.vocabulary))])
    weights = torch.log1p(len(captions) / (1 + frequency))
    return weights / weights.mean()


def companions(model: LexLIP, captions_of: Sequence[Sequence[str]], number: int) -> Tensor:
    """Words that a person who wrote w would also accept of the same photo, int32 [V, number], best first.

    Each word's are those whose t-score is the highest: how much more often than by chance they occur among
    all captions of the photos of the captions that hold it (Church et al., 1991). A word with fewer of them
    has itself in their place.

    Args:
        model: a new one.
        captions_of: the captions of each photo.
        number: of companions.
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
    """Start the text head so that a caption's vector is its own words, and a little of their neighbours.

    For text encoders without a masked-language-model head, such as those of sentence-transformers. A ridge
    regression gives the head's dense layer: from the states of words in captions to the directions of
    their embeddings (less the mean embedding), rare words counting as much as frequent ones. GELU is kept
    where it is linear, and LayerNorm takes the shift out again. The decoder, which both heads start from,
    is those directions, scaled with the bias so that a position has its own word at OWN_LOGIT and
    NEIGHBOURS more above 0. The image head's bias stays 0: all its words may be reached at first.

    Args:
        model: a new one.
        captions: of the training photos; some of them are enough.
        progress: show a bar, as it can take some seconds.

    Returns:
        Whether it was done: not where no caption has a word of the lexicon, or where the encoder's states
        do not tell words apart. The heads are then as they were.
    """
    was_training = model.training
    model.eval()
    states, columns = _states_of_words(model, captions[:: max(1, len(captions) // CAPTIONS)], progress)
    model.train(was_training)
    if not len(columns):
        return False
    head = copy.deepcopy(model.text_head)
    directions, rarity = _directions(head.decoder), 1 / columns.bincount()[columns].sqrt()
    weight, bias = _ridge(head.project(states), directions[columns], rarity)
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
def fit_image_tokens(model: OneTransformer, words: LexLIP, photos: Sequence[Tensor]) -> None:
    """Start with photos whose tokens look to the Transformer like the words that LexLIP sees there.

    So attention between a word and a patch that shows it begins as that between two equal words. A ridge
    regression gives the projection: from the image encoder's states to the embeddings of the WORDS heaviest
    words of each position, averaged by their weights.

    Args:
        model: a new one with the encoders of `words`.
        words: a trained LexLIP.
        photos: batches of photos, uint8 [B, 3, S, S]; a few hundred photos are enough.
    """
    embeddings = words.text_encoder.word_embeddings[torch.from_numpy(words.vocabulary.token_ids)]
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
    weight, bias = _ridge(states, means, torch.ones(len(states)))
    model.image_projection.weight.copy_(embeddings.std() * weight)
    model.image_projection.bias.copy_(embeddings.std() * bias)
    norm = getattr(model.text_encoder.body.embeddings, "LayerNorm", None)
    if norm is not None:
        model.image_norm.load_state_dict(norm.state_dict())


def _states_of_words(model: LexLIP, captions: Sequence[str], progress: bool) -> tuple[Tensor, Tensor]:
    """States [N, D_in] of the captions' tokens that are words, and these words' columns, int64 [N]."""
    encoder = model.text_encoder
    states, columns = [torch.empty(0, encoder.width)], [torch.empty(0, dtype=torch.int64)]
    starts = range(0, len(captions), BATCH)
    hidden = None if progress else True  # None: where nobody looks on
    for start in tqdm(starts, "fitting the heads", unit="batch", delay=2, disable=hidden):
        ids, mask = encoder.tokenize(captions[start : start + BATCH])
        found = torch.from_numpy(model.vocabulary.lookup(ids.numpy()))
        known = mask & (found >= 0)
        states.append(encoder(ids, mask)[known])
        columns.append(found[known])
    return torch.cat(states), torch.cat(columns)


def _directions(embeddings: Tensor) -> Tensor:
    """Unit vectors [V, D] of embeddings less their mean."""
    return F.normalize(embeddings - embeddings.mean(dim=0), dim=1)


def _ridge(inputs: Tensor, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Weight [D, D] and bias [D] of the weighted ridge regression, scaled to outputs of unit variance."""
    x = torch.cat([inputs, inputs.new_ones(len(inputs), 1)], dim=1).double()
    weighted = x * weights[:, None]
    gram = weighted.t() @ x
    gram += RIDGE * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
    solution = torch.linalg.solve(gram, weighted.t() @ targets.double())
    solution /= (x @ solution).std()
    return solution[:-1].t().float(), solution[-1].float()
