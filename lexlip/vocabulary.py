"""The lexicon: the words that images and captions are turned into.

A vocabulary is a list of V words, each one an entry of the text encoder's tokenizer. Three kinds:

- ``all``: every tokenizer entry, special ones too (the public LexLIP code).
- ``pieces``: every entry but special and unused ones.
- ``words``: whole words of the training captions, without function words, so that what is indexed
  can be read by a person and function words take no room in the index (stop-word removal). Pieces of words
  that the tokenizer splits do not count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lexlip.config import VocabularyConfig
from lexlip.errors import ModelError

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

FUNCTION_WORDS = frozenset(
    """
    a about above across after against all along also although among an and another any are around as at
    away back be because been before behind being below beneath beside between beyond both but by can
    could did do does doing down during each either else even every few for from had has have having he
    her here hers herself him himself his how i if in inside into is it its itself just like many may me
    might more most much must my near neither no nor not of off on one onto or other others our out
    outside over own per s same she should since so some such t than that the their them themselves then
    there these they this those through to together too toward towards under underneath until up upon us
    very via was we were what when where which while who whom whose why will with within without would
    you your
    """.split()
)
"""Words that carry grammar rather than content; a hit on one does not count in words@10."""

WORD_BEGINS = ("Ġ", "▁")
"""How byte-level BPE and SentencePiece mark the first piece of a word."""

_WORD = re.compile(f"[{''.join(WORD_BEGINS)}]?([^\\W_]+)")
_AT_ONCE = 10_000  # captions tokenized to count their words


def is_content_word(entry: str) -> bool:
    """Whether a tokenizer entry is a whole word that names something (no piece, sign or function word)."""
    word = _WORD.fullmatch(entry)
    return word is not None and word[1].lower() not in FUNCTION_WORDS


def is_sign(entry: str) -> bool:
    """Whether a tokenizer entry is punctuation: it holds no letter and no digit."""
    return not any(character.isalnum() for character in entry)


@dataclass(frozen=True)
class Vocabulary:
    """V words and the tokenizer's number of each.

    Attributes:
        words: the V words, as the index stores them.
        token_ids: int64 [V], the tokenizer's id of each word.
    """

    words: tuple[str, ...]
    token_ids: np.ndarray

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def column_of_token(self) -> np.ndarray:
        """int64 [tokenizer ids up to the largest]: the word's column, -1 for entries outside the lexicon."""
        columns = np.full(int(self.token_ids.max()) + 1, -1, dtype=np.int64)
        columns[self.token_ids] = np.arange(len(self))
        return columns

    def lookup(self, token_ids: np.ndarray) -> np.ndarray:
        """int64, as many as `token_ids`: each token's column, -1 for one outside the lexicon."""
        table = self.column_of_token
        return np.where(token_ids < len(table), table[np.minimum(token_ids, len(table) - 1)], -1)

    def columns(self, token_ids: Sequence[int]) -> list[int]:
        """Columns of those tokens that are in the lexicon, in order, repeats kept."""
        found = self.lookup(np.asarray(token_ids, dtype=np.int64))
        return [int(column) for column in found if column >= 0]

    @classmethod
    def from_words(cls, words: Iterable[str], tokenizer: PreTrainedTokenizerBase | Tokenizer) -> Vocabulary:
        """The lexicon of given words, by a tokenizer of transformers or of tokenizers.

        Raises:
            ModelError: a word is not an entry of the tokenizer.
        """
        words = tuple(words)
        entries = tokenizer.get_vocab()
        unknown = [word for word in words if word not in entries]
        if unknown:
            raise ModelError(f"'{unknown[0]}' of the vocabulary is no entry of the model's tokenizer")
        return cls(words, np.array([entries[word] for word in words], dtype=np.int64))

    @classmethod
    def build(
        cls, config: VocabularyConfig, tokenizer: PreTrainedTokenizerBase, captions: Sequence[str]
    ) -> Vocabulary:
        """The lexicon that a config asks for; `captions` are the training captions (for kind "words")."""
        entries = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
        if config.kind == "all":
            return cls.from_words([word for word, _ in entries], tokenizer)
        special = set(tokenizer.all_special_ids)
        pieces = [(w, i) for w, i in entries if i not in special and not re.fullmatch(r"\[unused\d+\]", w)]
        if config.kind == "pieces":
            return cls.from_words([word for word, _ in pieces], tokenizer)
        counts = _count_whole_words(tokenizer, captions)
        kept = [w for w, i in pieces if counts[i] >= config.min_count and is_content_word(w)]
        if not kept:
            raise ModelError(
                f"no word occurs {config.min_count} times in the {len(captions)} training captions"
            )
        return cls.from_words(kept, tokenizer)


def _count_whole_words(tokenizer: PreTrainedTokenizerBase, captions: Sequence[str]) -> Counter[int]:
    """How often each entry of a tokenizer is a whole word of the captions."""
    counts: Counter[int] = Counter()
    for start in range(0, len(captions), _AT_ONCE):
        some = list(captions[start : start + _AT_ONCE])
        for encoding in tokenizer(some, add_special_tokens=False, verbose=False).encodings or ():
            pieces = Counter(encoding.word_ids)
            words = zip(encoding.ids, encoding.word_ids, strict=True)
            counts.update(id for id, word in words if pieces[word] == 1)
    return counts


def tokenize_captions(tokenizer: PreTrainedTokenizerBase, captions: Sequence[str]) -> list[list[int]]:
    """Token ids of each caption, without special tokens, uncut."""
    if not captions:
        return []
    ids: list[list[int]] = tokenizer(list(captions), add_special_tokens=False, verbose=False)["input_ids"]
    return ids
