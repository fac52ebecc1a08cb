"""New words for a model that a run starts from, so that the words of a folder's own captions can be found.

The words that the model has keep their columns and weights. A vector of the new model is one of the old
model, with entries added at its end.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lexlip.encoders.lexicon import BagOfWords, LexiconHead, WordPieces
from lexlip.models.lexlip import LexLIP
from lexlip.training.initialisation import companions, ridge
from lexlip.words.vocabulary import Vocabulary, frequent_words


def add_words(model: LexLIP, captions_of: Sequence[Sequence[str]], min_count: int) -> tuple[str, ...]:
    """Add the content words of captions to a model's vocabulary, without changing the words that it has.

    A head's row of a new word is what a ridge regression from the embeddings of the old words (the means of
    their pieces) to their rows makes of the new word's embedding. Its bias is the mean of the others', and so
    is its weight without a network. Its companions are those of a new model (see `companions`).

    Args:
        model: with heads that read tokens (`model.joint` is 0).
        captions_of: the captions of each photo.
        min_count: how often a word must occur in them.

    Returns:
        The new words, in the order of their columns.
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
    weight, bias = ridge(embeddings[: len(decoder)], decoder, torch.ones(len(decoder)))
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
