"""Measures of retrieval: recall at k, and how many of an image's heaviest words its captions hold."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from scipy.sparse import csr_matrix

from lexlip.function_words import FUNCTION_WORDS
from lexlip.sparse.topk import topk
from lexlip.vocabulary import Vocabulary, is_sign


def recall_at_k(
    results: Sequence[Sequence[str]], relevant: Sequence[Collection[str]], ks: Sequence[int] = (1, 5, 10)
) -> dict[str, float]:
    """Share of queries, in percent, with at least one relevant id among the first k.

    Args:
        results: for each query the ids found, best first.
        relevant: for each query the ids that are right.
        ks: cut-offs.

    Returns:
        {"R@1": ..., ...}
    """
    firsts = [
        next((rank for rank, id in enumerate(found, 1) if id in right), np.inf)
        for found, right in zip(results, relevant, strict=True)
    ]
    ranks = np.array(firsts, dtype=float)
    return {f"R@{k}": 100 * int((ranks <= k).sum()) / max(1, len(ranks)) for k in ks}


def words_at_10(
    images: csr_matrix,
    vocabulary: Vocabulary,
    caption_tokens: Sequence[Collection[int]],
    special: Collection[int],
) -> float:
    """Of the 10 heaviest entries of an image, the share that its captions hold, averaged over images.

    Special pieces and punctuation are left out of the ten; a function word never counts as held; an
    image with fewer than ten entries is still divided by ten.

    Args:
        images: [n, V].
        vocabulary: the V words.
        caption_tokens: for each image, the tokenizer ids that occur in its captions.
        special: the tokenizer ids of special pieces.
    """
    ignored = np.array(
        [is_sign(w) or int(t) in special for w, t in zip(vocabulary.words, vocabulary.token_ids, strict=True)]
    )
    counted = csr_matrix(images.multiply(~ignored[None, :]))
    heaviest = topk(counted, 10)
    hits = 0
    for row, tokens in enumerate(caption_tokens):
        columns = heaviest.indices[heaviest.indptr[row] : heaviest.indptr[row + 1]]
        hits += sum(is_held(column, vocabulary, tokens) for column in columns)
    return hits / max(1, 10 * len(caption_tokens))


def is_held(column: int, vocabulary: Vocabulary, caption_tokens: Collection[int]) -> bool:
    """Whether captions with these tokenizer ids hold a word; function words never count."""
    word = vocabulary.words[column].lower()
    return int(vocabulary.token_ids[column]) in caption_tokens and word not in FUNCTION_WORDS
