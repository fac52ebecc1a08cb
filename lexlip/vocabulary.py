"""The lexicon: the words that images and captions become.

A vocabulary is a list of V words, each an entry of the text encoder's tokenizer as people read it (see
`entries_as_words`). There are three kinds:

- ``all``: every entry of the tokenizer, including special ones (the public LexLIP code).
- ``pieces``: every entry except special and unused ones.
- ``words``: whole words of the training captions, in any language, except function words. What is indexed
  is then readable, and function words take no space in the index (stop-word removal). Pieces of split words
  do not count; the part after an apostrophe is such a piece for SentencePiece ("eau" in "l'eau"), but a word
  for WordPiece.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from tokenizers.decoders import ByteLevel

from lexlip.config import VocabularyConfig
from lexlip.errors import ModelError
from lexlip.function_words import FUNCTION_WORDS

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

CONTINUES = "##"  # how WordPiece marks a piece that continues a word
WORD_BEGINS = ("Ġ", "▁")  # how byte-level BPE and SentencePiece mark the first piece of a word

_MARKS = (CONTINUES, *WORD_BEGINS)
_UNUSED = re.compile(r"\[unused\d+\]")
_AT_ONCE = 10_000  # captions whose words are counted at a time


def is_content_word(word: str) -> bool:
    """Return whether a word of the lexicon is a whole content word: no piece, sign or function word."""
    return re.fullmatch(r"[^\W_]+", word) is not None and word.lower() not in FUNCTION_WORDS


def is_sign(word: str) -> bool:
    """Return whether a word of the lexicon is punctuation: it has no letter and no digit."""
    return not any(character.isalnum() for character in word)


def word_mark(entries: Iterable[str]) -> str:
    """Return the mark that a tokenizer uses most: CONTINUES or one of WORD_BEGINS; "" if it uses none."""
    counts = Counter(entry[: len(mark)] for entry in entries for mark in _MARKS if entry.startswith(mark))
    return max(counts, key=counts.__getitem__, default="")


def entries_as_words(tokenizer: PreTrainedTokenizerBase | Tokenizer) -> dict[str, int]:
    """Return the entries of a tokenizer as people read them, all different, with their ids.

    Accents and case are the tokenizer's. SentencePiece and byte-level BPE mark where a word begins: their
    "▁Hund" becomes "Hund", and "bar", which continues a word, becomes "##bar", as in WordPiece.
    """
    entries: dict[str, int] = tokenizer.get_vocab()
    mark = word_mark(entries)
    if mark not in WORD_BEGINS:
        return entries
    words: dict[str, int] = {}
    for entry, id in sorted(entries.items(), key=lambda entry: entry[1]):
        begins = entry.startswith(mark) and entry != mark
        word = entry.removeprefix(mark) if begins else CONTINUES + entry
        if mark == "Ġ":
            word = _decode_bytes(word)
        while word in words:
            word = mark + word
        words[word] = id
    return words


def _decode_bytes(entry: str) -> str:
    """Return an entry of byte-level BPE as text: "ä" for "Ã¤"; unchanged if its bytes are not printable."""
    text: str = ByteLevel().decode([entry])
    return text if text.isprintable() and not {" ", "\ufffd"} & set(text) else entry


@dataclass(frozen=True)
class Vocabulary:
    """V words and the tokenizer's id of each.

    Attributes:
        words: the V words, all different, as the index stores them and people see them.
        token_ids: int64 [V], the tokenizer's id of each word.
    """

    words: tuple[str, ...]
    token_ids: np.ndarray

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def column_of_token(self) -> np.ndarray:
        """The column of each tokenizer id, int64 [largest id + 1]; -1 outside the lexicon."""
        columns = np.full(int(self.token_ids.max()) + 1, -1, dtype=np.int64)
        columns[self.token_ids] = np.arange(len(self))
        return columns

    def lookup(self, token_ids: np.ndarray) -> np.ndarray:
        """Return the column of each token, int64 like `token_ids`; -1 outside the lexicon."""
        table = self.column_of_token
        return np.where(token_ids < len(table), table[np.minimum(token_ids, len(table) - 1)], -1)

    def columns(self, token_ids: Sequence[int]) -> list[int]:
        """Return the columns of the tokens that are in the lexicon, in order, with repeats."""
        found = self.lookup(np.asarray(token_ids, dtype=np.int64))
        return [int(column) for column in found if column >= 0]

    @classmethod
    def from_words(cls, words: Iterable[str], tokenizer: PreTrainedTokenizerBase | Tokenizer) -> Vocabulary:
        """Return the lexicon of given words, for a tokenizer of transformers or of tokenizers.

        Raises:
            ModelError: a word is not an entry of the tokenizer.
        """
        words = tuple(words)
        ids = entries_as_words(tokenizer)
        unknown = [word for word in words if word not in ids]
        if unknown:
            raise ModelError(f"'{unknown[0]}' of the vocabulary is no entry of the model's tokenizer")
        return cls(words, np.array([ids[word] for word in words], dtype=np.int64))

    @classmethod
    def build(
        cls, config: VocabularyConfig, tokenizer: PreTrainedTokenizerBase, captions: Sequence[str]
    ) -> Vocabulary:
        """Return the lexicon that a config describes.

        Args:
            config: the kind.
            tokenizer: the text encoder's.
            captions: the training captions, for kind "words".

        Raises:
            ModelError: no word occurs often enough.
        """
        ids = entries_as_words(tokenizer)
        kept = sorted(ids, key=ids.__getitem__)
        if config.kind != "all":
            special = set(tokenizer.all_special_ids)
            kept = [word for word in kept if ids[word] not in special and not _UNUSED.fullmatch(word)]
        if config.kind == "words":
            counts = _count_whole_words(tokenizer, ids, captions)
            kept = [word for word in kept if counts[ids[word]] >= config.min_count and is_content_word(word)]
            if not kept:
                raise ModelError(
                    f"no word occurs {config.min_count} times in the {len(captions)} training captions"
                )
        return cls(tuple(kept), np.array([ids[word] for word in kept], dtype=np.int64))


def is_held(column: int, vocabulary: Vocabulary, caption_tokens: Collection[int]) -> bool:
    """Return whether captions with these tokenizer ids contain a word; function words never count."""
    word = vocabulary.words[column].lower()
    return int(vocabulary.token_ids[column]) in caption_tokens and word not in FUNCTION_WORDS


def _count_whole_words(
    tokenizer: PreTrainedTokenizerBase, ids: dict[str, int], captions: Sequence[str]
) -> Counter[int]:
    """Count how often each entry of a tokenizer is a whole word of the captions.

    SentencePiece counts punctuation to the word before it: "Hund." is one word, of "▁Hund" and "."; "Hund"
    is nevertheless a whole word.
    """
    signs = {id for word, id in ids.items() if is_sign(word)}
    counts: Counter[int] = Counter()
    for start in range(0, len(captions), _AT_ONCE):
        some = list(captions[start : start + _AT_ONCE])
        for encoding in tokenizer(some, add_special_tokens=False, verbose=False).encodings or ():
            words = zip(encoding.ids, encoding.word_ids, strict=True)
            pieces = [(id, word) for id, word in words if id not in signs]
            number = Counter(word for _, word in pieces)
            counts.update(id for id, word in pieces if number[word] == 1)
    return counts


def tokenize_captions(tokenizer: PreTrainedTokenizerBase, captions: Sequence[str]) -> list[list[int]]:
    """Return the token ids of each caption, uncut and without special tokens."""
    if not captions:
        return []
    ids: list[list[int]] = tokenizer(list(captions), add_special_tokens=False, verbose=False)["input_ids"]
    return ids
