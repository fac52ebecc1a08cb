"""Queries of few words: what a word asks for when it stands alone, and how typed words stay in a query.

A text encoder that was trained with sentences makes other words of a single one: "man" becomes "wearing,
holds, shirt". So a model keeps a query for each word of its vocabulary, which finds the photos whose captions
have the word (lexlip/training/packaging.py), in FILE of its folder. A text that holds n content words is
encoded as a sentence and as the sum of its words' queries, both of unit length, and they are mixed:

    p = (1 - a) sentence + a words,   a = max(2^(1-n), LEAST) without function words, else LEAST

Then the words that were typed rise to where people see them, and the heaviest words are kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from anserini_bridge.sparse_rows import Rows
from lexlip.sparse import SENTENCE_TOPK
from lexlip.sparse.quantize import UNIT_SCALE
from lexlip.sparse.rows import packed, part_of_model, unpacked
from lexlip.sparse.top_words import heaviest

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Vector = NDArray[np.float32]  # [V]

FILE = "keywords.safetensors"
LEAST = 1 / 8  # share of the words' queries in a sentence
FEW = 2  # so many typed words
FIRST = 3  # are among so many heaviest; more of them are among SENTENCE_TOPK
STEP = 2 / UNIT_SCALE  # of a query's length: more than quantisation rounds away


class Typed(NamedTuple):
    """What a text itself holds of a vocabulary.

    Attributes:
        columns: of its content words, in order, without repeats.
        number: of its content words, n, with those that the vocabulary lacks, without repeats.
        alone: it has no function word, or only one content word.
        least: share of the words' queries in a sentence.
    """

    columns: list[int]
    number: int
    alone: bool
    least: float = LEAST

    @property
    def share(self) -> float:
        """The share of the words' queries, a."""
        return max(2.0 ** (1 - self.number), self.least) if self.alone else self.least


def as_query(sentence: Vector, typed: Typed, keywords: Rows | None, most: int | None = None) -> Vector:
    """Return the query of a text, float32 [V], about as long as the sentence's vector, or 1 for one word.

    Args:
        sentence: the text as a model encodes it, float32 [V]; of one word it does not matter.
        typed: what it holds.
        keywords: the query of each word, unit vectors [V, V]; None: nothing is mixed.
        most: heaviest words that the query keeps; None keeps all.
    """
    own = typed.columns
    if not own:
        return heaviest(sentence, most)
    if keywords is not None:
        words = np.zeros_like(sentence)
        for column in own:
            columns, weights = keywords.row(column)
            words[columns] += weights
        share = typed.share
        length = 1.0 if share == 1 else np.linalg.norm(sentence) or 1.0
        of_words = np.linalg.norm(words) or 1.0
        sentence = (1 - share) * sentence + share * length / of_words * words
    return heaviest(_risen(sentence, typed), most)


def _risen(query: Vector, typed: Typed) -> Vector:
    """Return a query with the words that were typed at least as heavy as their last place asks for."""
    weights, own = query.copy(), typed.columns
    others = np.delete(weights, own)
    others = -np.sort(-others[others > 0])
    place = max((FIRST if typed.number <= FEW else SENTENCE_TOPK) - len(own), 0)  # so many may be heavier
    if len(others):
        lowest = others[: place + 1][-1] + STEP * np.linalg.norm(weights)
    else:
        lowest = np.min(weights[weights > 0]) if weights.any() else 1.0
    weights[own] = np.maximum(weights[own], lowest)
    return weights


def save_keywords(folder: Path, keywords: csr_matrix) -> None:
    """Write FILE into a model's folder, in half precision."""
    tensors = packed(keywords)
    tensors["weights"] = tensors["weights"].astype(np.float16)
    if keywords.shape[1] <= 2**16:
        tensors["columns"] = tensors["columns"].astype(np.uint16)
    save_file(tensors, folder / FILE)


def load_keywords(folder: Path, width: int) -> Rows | None:
    """Return the query of each of `width` words in a model's folder, float32 [V, V]; None if it has none.

    OSError or ValueError: the file is damaged.
    """
    with part_of_model(folder / FILE) as tensors:
        if tensors is None:
            return None
        keywords = unpacked(tensors, width, np.float32)
        if keywords.shape[0] != width:
            raise ValueError(f"{keywords.shape[0]} queries of {width} words")
        if not ((keywords.data >= 0) & (keywords.data < np.inf)).all():
            raise ValueError("a weight is negative, or not a finite number")
        return keywords
