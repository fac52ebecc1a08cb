"""The lexicon: the words that images and captions become.

A vocabulary is a list of V words, each an entry of the text encoder's tokenizer as people read it (see
`entries_as_words`), or made of several. There are three kinds:

- ``all``: every entry of the tokenizer, including special ones (the public LexLIP code).
- ``pieces``: every entry except special and unused ones.
- ``words``: whole words of the training captions, in any language, except function words, also those that
  the tokenizer splits ("giraffe"). What is indexed is then readable, and function words take no space in the
  index (stop-word removal). The part after an apostrophe is no word for SentencePiece ("eau" in "l'eau"), but
  one for WordPiece.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import accumulate, compress, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from lexlip.errors import ModelError
from lexlip.words.function_words import FUNCTION_WORDS
from lexlip.words.plain_text import counted, words_in

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from tokenizers.decoders import ByteLevel
    from transformers import PreTrainedTokenizerBase

    from lexlip.config import VocabularyConfig

    class LikeTokenizers(Protocol):
        """What can stand for a tokenizer of the package tokenizers."""

        def get_vocab(self) -> dict[str, int]: ...

        def encode(self, text: str, *, add_special_tokens: bool) -> Any: ...


CONTINUES = "##"  # how WordPiece marks a piece that continues a word
WORD_BEGINS = ("Ġ", "▁")  # how byte-level BPE and SentencePiece mark the first piece of a word
WORD_ENDS = "</w>"  # how CLIP's byte-level BPE marks the last piece of a word

_MARKS = (CONTINUES, *WORD_BEGINS)
_UNUSED = r"\[unused\d+\]"
_SPECIAL = re.compile(r"<.+>|\[.+\]")
_AT_ONCE = 10_000  # captions whose words are counted at a time


def is_content_word(word: str) -> bool:
    """Return whether a word of the lexicon is a whole content word: no piece, sign or function word."""
    return words_in(word) == [word] and word.lower() not in FUNCTION_WORDS


def other_number(word: str) -> str:
    """Return an English noun in the plural if it is in the singular, and the other way round, by its -s."""
    return word[:-1] if word.endswith("s") else word + "s"


def is_sign(word: str) -> bool:
    """Return whether a word of the lexicon is punctuation: it has no letter and no digit."""
    return not any(character.isalnum() for character in word)


def word_mark(entries: Iterable[str]) -> str:
    """Return the mark that a tokenizer uses most: CONTINUES, one of WORD_BEGINS or WORD_ENDS; "" if none."""
    text = "\0".join(["", *entries, ""])
    counts = {mark: text.count(f"\0{mark}") for mark in _MARKS}
    counts[WORD_ENDS] = text.count(f"{WORD_ENDS}\0")
    mark = max(counts, key=counts.__getitem__)
    return mark if counts[mark] else ""


def entries_as_words(tokenizer: PreTrainedTokenizerBase | Tokenizer) -> dict[str, int]:
    """Return the entries of a tokenizer as people read them, all different, with their ids.

    Accents and case are the tokenizer's. SentencePiece and byte-level BPE mark where a word begins: their
    "▁Hund" becomes "Hund", and "bar", which continues a word, becomes "##bar", as in WordPiece. CLIP marks
    where a word ends: "hund</w>" becomes "hund", and "ba", which another piece continues, becomes "ba##".
    """
    entries: dict[str, int] = tokenizer.get_vocab()
    return _as_words(entries, word_mark(entries))


def _as_words(entries: dict[str, int], mark: str) -> dict[str, int]:
    """Return what `entries_as_words` does, given a tokenizer's entries and the mark that they use most."""
    if mark not in (*WORD_BEGINS, WORD_ENDS):
        return entries
    words: dict[str, int] = {}
    for entry, id in sorted(entries.items(), key=lambda entry: entry[1]):
        if mark == WORD_ENDS:
            ends = entry.endswith(mark) and entry != mark
            word = _decode_bytes(entry.removesuffix(mark)) + CONTINUES * (not ends)
        else:
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
    text: str = _byte_level().decode([entry])
    return text if text.isprintable() and not {" ", "\ufffd"} & set(text) else entry


@cache
def _byte_level() -> ByteLevel:
    from tokenizers.decoders import ByteLevel  # no search with BERT needs it

    return ByteLevel()


@dataclass(frozen=True)
class Vocabulary:
    """V words and the tokenizer's id of each.

    A vocabulary with words of several pieces reads whole words: "giraffe" is its own word, and "gi" is not in
    it. One without reads pieces: "gi" of "giraffe" counts, if it is one of the words.

    Attributes:
        words: the V words, all different, as the index stores them and people see them.
        token_ids: int64 [V], the tokenizer's id of each word; of its first piece, if it has several.
        split: the pieces of each word that has several, by column.
        continuing: the tokenizer's ids that continue a word; needed only with `split`.
        unfinished: the tokenizer's ids after which a word goes on, as in CLIP; needed only with `split`.
    """

    words: tuple[str, ...]
    token_ids: np.ndarray
    split: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    continuing: frozenset[int] = frozenset()
    unfinished: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def column_of_token(self) -> np.ndarray:
        """The column of each tokenizer id that is a word, int64 [largest id + 1]; -1 for others."""
        columns = np.full(int(self.token_ids.max()) + 1, -1, dtype=np.int64)
        whole = np.array([column for column in range(len(self)) if column not in self.split], dtype=np.int64)
        columns[self.token_ids[whole]] = whole
        return columns

    @cached_property
    def pieces_of_words(self) -> list[tuple[int, ...]]:
        """The pieces of each word, one or more."""
        pieces: list[tuple[int, ...]] = list(zip(self.token_ids.tolist()))
        for column, several in self.split.items():
            pieces[column] = several
        return pieces

    @cached_property
    def column_of_pieces(self) -> dict[tuple[int, ...], int]:
        """The column of each word, by its pieces."""
        return dict(zip(self.pieces_of_words, range(len(self)), strict=True))

    @cached_property
    def pieces(self) -> tuple[np.ndarray, np.ndarray]:
        """The pieces of all words, int64, one word after the other; and where each word begins, int64 [V]."""
        starts = np.cumsum([0, *map(len, self.pieces_of_words)])[:-1]
        return np.array([id for pieces in self.pieces_of_words for id in pieces], dtype=np.int64), starts

    def lookup(self, token_ids: np.ndarray) -> np.ndarray:
        """Return the column of the word at each token, int64 like `token_ids` [..., L].

        A word of several pieces is at its first one. -1: no word of the lexicon begins here.
        """
        if self.split:
            rows = token_ids.reshape(-1, token_ids.shape[-1])
            found = np.full(rows.shape, -1, dtype=np.int64)
            for row, ids in zip(found, rows.tolist(), strict=True):
                for start, column in self._read(ids):
                    row[start] = column
            return found.reshape(token_ids.shape)
        table = self.column_of_token
        return np.where(token_ids < len(table), table[np.minimum(token_ids, len(table) - 1)], -1)

    def read(self, token_ids: Sequence[int]) -> list[int]:
        """Return the column of each word of a text, in order, or of each piece; -1 outside the lexicon."""
        if self.split:
            return [column for _, column in self._read(token_ids)]
        columns: list[int] = self.lookup(np.asarray(token_ids, dtype=np.int64)).tolist()
        return columns

    def columns(self, token_ids: Sequence[int]) -> list[int]:
        """Return the columns of a text's words that are in the lexicon, in order, with repeats."""
        return [column for column in self.read(token_ids) if column >= 0]

    def _read(self, token_ids: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield where each whole word of a text begins, and its column, or -1."""
        for start, pieces in whole_words(token_ids, self.continuing, self.unfinished):
            yield start, self.column_of_pieces.get(pieces, -1)

    @classmethod
    def from_words(
        cls, words: Iterable[str], tokenizer: PreTrainedTokenizerBase | LikeTokenizers
    ) -> Vocabulary:
        """Return the lexicon of given words, for a tokenizer of transformers or of tokenizers.

        Raises:
            ModelError: a word is neither an entry of the tokenizer nor made of entries.
        """
        words = tuple(words)
        entries = tokenizer.get_vocab()
        mark = word_mark(entries)
        ids = _as_words(entries, mark)
        several = [column for column, word in enumerate(words) if word not in ids]
        split = dict(zip(several, _pieces_of([words[column] for column in several], tokenizer), strict=True))
        named = dict(zip(ids.values(), ids, strict=True)) if split else {}
        for column, pieces in split.items():
            if _joined(named[id] for id in pieces) != words[column]:
                missing = words[column]
                raise ModelError(f"'{missing}' of the vocabulary cannot be made of the tokenizer's entries")
        firsts = [split[column][0] if column in split else ids[word] for column, word in enumerate(words)]
        ends = mark == WORD_ENDS
        joins = (frozenset(), _unfinished(ids)) if ends else (_continuing(ids), frozenset())
        return cls(words, np.array(firsts, dtype=np.int64), split, *(joins if split else ()))

    @classmethod
    def build(
        cls, config: VocabularyConfig, tokenizer: PreTrainedTokenizerBase, captions: Sequence[str]
    ) -> Vocabulary:
        """Return the lexicon that a config describes; captions are those of training, for kind "words".

        Raises:
            ModelError: no word occurs often enough.
        """
        if config.kind == "words":
            kept = frequent_words(tokenizer, captions, config.min_count)
            if not kept:
                captioned = counted(len(captions), "training caption")
                if config.min_count == 1:
                    raise ModelError(f"no content word is in the {captioned}")
                raise ModelError(f"no word occurs {config.min_count} times in the {captioned}")
            return cls.from_words(kept, tokenizer)
        ids = entries_as_words(tokenizer)
        kept = sorted(ids, key=ids.__getitem__)
        if config.kind == "pieces":
            special = set(tokenizer.all_special_ids)
            kept = [word for word in kept if ids[word] not in special and not re.fullmatch(_UNUSED, word)]
        return cls.from_words(kept, tokenizer)


def frequent_words(tokenizer: PreTrainedTokenizerBase, captions: Sequence[str], min_count: int) -> list[str]:
    """Return the content words that captions hold at least so often: first those of one entry, by its id."""
    ids = entries_as_words(tokenizer)
    special = set(tokenizer.all_special_ids)
    whole = [word for word in sorted(ids, key=ids.__getitem__) if ids[word] not in special]
    counts = _count_whole_words(tokenizer, ids, captions)
    words = [word for word in whole if counts[ids[word],] >= min_count]
    words += _of_several(counts, ids, min_count, tokenizer)
    return [word for word in words if is_content_word(word)]


def whole_words(
    token_ids: Sequence[int], continuing: Collection[int], unfinished: Collection[int] = ()
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield where each word of a text begins, and its pieces; see `Vocabulary`."""
    start = 0
    while start < len(token_ids):
        end = start + 1
        while end < len(token_ids) and (token_ids[end] in continuing or token_ids[end - 1] in unfinished):
            end += 1
        yield start, tuple(token_ids[start:end])
        start = end


def _continuing(ids: Mapping[str, int]) -> frozenset[int]:
    """Return the entries that continue a word; a sign ends it: "Hund." is "Hund" and "."."""
    rests = [(word.removeprefix(CONTINUES), id) for word, id in ids.items() if word.startswith(CONTINUES)]
    return frozenset(
        id for rest, id in rests if rest.isalnum() or not (is_sign(rest) or _SPECIAL.fullmatch(rest))
    )


def _beginning(entries: Mapping[str, int]) -> frozenset[int]:
    """Return the entries that begin a word, of a tokenizer that marks these."""
    mark = word_mark(entries)
    marked = (id for entry, id in entries.items() if entry.startswith(mark))
    return frozenset(marked if mark in WORD_BEGINS else ())


def _unfinished(ids: Mapping[str, int]) -> frozenset[int]:
    """Return the entries after which a word goes on, of a tokenizer that marks where words end."""
    begins = ((word.removesuffix(CONTINUES), id) for word, id in ids.items() if word.endswith(CONTINUES))
    return frozenset(id for begin, id in begins if not _SPECIAL.fullmatch(begin))


def _joined(pieces: Iterable[str]) -> str:
    """Return the word that pieces make; SentencePiece may begin it with its mark alone."""
    rests = (piece.removeprefix(CONTINUES).removesuffix(CONTINUES) for piece in pieces)
    return "".join(rest for rest in rests if rest not in WORD_BEGINS)


def _pieces_of(
    words: Sequence[str], tokenizer: PreTrainedTokenizerBase | LikeTokenizers
) -> list[tuple[int, ...]]:
    """Return the tokenizer's ids of each word."""
    core: Any = getattr(tokenizer, "backend_tokenizer", tokenizer)
    return [
        tuple(compress(encoded.ids, encoded.attention_mask))
        for encoded in (core.encode(spaced(word), add_special_tokens=False) for word in words)
    ]


def _of_several(
    counts: Mapping[tuple[int, ...], int],
    ids: Mapping[str, int],
    least: int,
    tokenizer: PreTrainedTokenizerBase,
) -> list[str]:
    """Return the words of several pieces that occur often enough, most frequent first.

    A piece of byte-level BPE may be a part of a letter; words with such a piece are left out.
    """
    named = {id: word for word, id in ids.items()}
    often = [pieces for pieces, number in counts.items() if len(pieces) > 1 and number >= least]
    often.sort(key=lambda pieces: (-counts[pieces], pieces))
    words = dict.fromkeys(_joined(named[id] for id in pieces) for pieces in often)
    new = [word for word in words if word not in ids]
    pieces = zip(new, _pieces_of(new, tokenizer), strict=True)
    return [word for word, ids_of_word in pieces if _joined(named[id] for id in ids_of_word) == word]


def is_held(column: int, vocabulary: Vocabulary, held: Collection[int]) -> bool:
    """Return whether captions with these columns contain a word; function words never count."""
    return column in held and vocabulary.words[column].lower() not in FUNCTION_WORDS


def _count_whole_words(
    tokenizer: PreTrainedTokenizerBase, ids: dict[str, int], captions: Sequence[str]
) -> Counter[tuple[int, ...]]:
    """Count how often the captions hold each whole word, by its pieces.

    SentencePiece counts punctuation to the word before it: "Hund." is one word, of "▁Hund" and "."; "Hund"
    is nevertheless a whole word, and "l'eau" is none. To Gemma's tokenizer a whole text is one word: there
    the pieces tell where words begin.
    """
    signs = {id for word, id in ids.items() if is_sign(word)}
    begins = _beginning(tokenizer.get_vocab())
    counts: Counter[tuple[int, ...]] = Counter()
    for start in range(0, len(captions), _AT_ONCE):
        some = [spaced(caption) for caption in captions[start : start + _AT_ONCE]]
        for encoding in tokenizer(some, add_special_tokens=False, verbose=False).encodings or ():
            begun = accumulate(id in begins for id in encoding.ids)
            words = zip(encoding.word_ids, begun, encoding.ids, strict=True)
            for _, word in groupby(words, key=itemgetter(0, 1)):
                parts = groupby((id for *_, id in word), key=signs.__contains__)
                pieces = [tuple(part) for sign, part in parts if not sign]
                if len(pieces) == 1:
                    counts.update(pieces)
    return counts


def caption_words(
    vocabulary: Vocabulary, tokenizer: PreTrainedTokenizerBase, captions: Sequence[str]
) -> list[set[int]]:
    """Return the columns of the words that each caption holds."""
    return [set(vocabulary.columns(ids)) for ids in tokenize_captions(tokenizer, captions)]


def tokenize_captions(tokenizer: PreTrainedTokenizerBase, captions: Sequence[str]) -> list[list[int]]:
    """Return the token ids of each caption, uncut and without special tokens."""
    if not captions:
        return []
    texts = list(map(spaced, captions))
    ids: list[list[int]] = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    return ids


def spaced(text: str) -> str:
    """Return a text whose words are to be told: some tokenizers know a word by its space."""
    return f" {text}"
