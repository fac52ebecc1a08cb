"""Which of a vocabulary's words a text itself holds."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from lexlip.sparse.keywords import Typed
from lexlip.words.plain_text import words_in
from lexlip.words.vocabulary import Vocabulary, is_content_word

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class TypedWords:
    """Finds the words of a vocabulary in texts.

    Of a word that the vocabulary does not have, a piece may be one: "gi" of "giraffe". A model may have
    learned what it stands for.

    Args:
        vocabulary: the V words.
        tokenizer: splits words.
        unknown: id of the token for what the tokenizer does not know; None if there is none.
    """

    def __init__(self, vocabulary: Vocabulary, tokenizer: Tokenizer, unknown: int | None) -> None:
        self.vocabulary, self.tokenizer, self.unknown = vocabulary, tokenizer, unknown
        self.columns = lru_cache(maxsize=2**14)(self._columns)

    def _columns(self, word: str) -> tuple[int, ...]:
        """Return a word's column, or those of its pieces if the vocabulary reads pieces; -1: it has none."""
        ids = self.tokenizer.encode(f" {word}", add_special_tokens=False).ids  # BPE knows words by the space
        return (-1,) if self.unknown in ids else tuple(self.vocabulary.read(ids))

    def of(self, text: str) -> Typed:
        """Return what a text holds."""
        words = words_in(text)
        content = [word for word in words if is_content_word(word)]
        columns = [column for word in content for column in self.columns(word) if column >= 0]
        own = [column for column in columns if is_content_word(self.vocabulary.words[column])]
        return Typed(list(dict.fromkeys(own)), len(set(content)), len(content) in (1, len(words)))

    def missing(self, text: str) -> list[str]:
        """Return the content words of a text that the vocabulary lacks."""
        content = [word for word in words_in(text) if is_content_word(word)]
        return [word for word in content if min(self.columns(word), default=-1) < 0]
