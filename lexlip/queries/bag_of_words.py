"""The query encoder without a network, which looks up words (see `lexlip.encoders.lexicon.BagOfWords`)."""

from __future__ import annotations

import numpy as np

from lexlip.queries.query_tokenizer import QueryTokenizer
from lexlip.queries.saved_weights import Encode, SavedWeights, Vector
from lexlip.words.vocabulary import Vocabulary


def bag_of_words(
    weights: SavedWeights, companions: bool, tokenizer: QueryTokenizer, vocabulary: Vocabulary
) -> Encode:
    """Return what encodes sentences by looking up their words.

    Args:
        weights: the model's.
        companions: each word also adds the weights of its companions.
        tokenizer: splits sentences.
        vocabulary: the V words.
    """
    of_words = np.logaddexp(0, weights.vector("bag_of_words.weight"))  # softplus
    if companions:
        columns = weights.tensor("bag_of_words.columns")
        of_companions = np.maximum(weights.tensor("bag_of_words.values"), 0)

    def encode(text: str) -> Vector:
        present = np.unique(np.array(vocabulary.columns(tokenizer.words(text).tolist()), np.int64))
        vector = np.zeros(len(vocabulary), np.float32)
        vector[present] = of_words[present]
        if companions:
            np.add.at(vector, columns[present], of_companions[present])
        return vector

    return encode
