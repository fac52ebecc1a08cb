"""A saved model's tokenizer and weights, without transformers and torch; and the words that texts hold."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from anserini_bridge.given_files import check_form, parse_json, read_file, read_json
from lexlip.errors import ModelError
from lexlip.models.compression import BLOCKS, INT4, INT8, SCALE, expand, from_int4, int8_rows
from lexlip.sparse.typed_words import Typed
from lexlip.words.plain_text import words_after, words_in
from lexlip.words.vocabulary import Vocabulary, is_content_word, spaced
from lexlip.words.word_piece import Pieces, WordPiece

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

Vector = NDArray[np.float32]  # [V]
Encode = Callable[[str], Vector]  # a sentence to its vector

Matrix = tuple[NDArray[np.int8], NDArray[np.float32]]
"""int8 [n, m] and the scale of each row, [n]; see `lexlip.models.compression.int8_rows`."""


class QueryTokenizer:
    """Splits sentences into token ids, int64 [L], of at most max_tokens with [CLS] and [SEP].

    What `WordPiece` can split does not wait for the package tokenizers, and the model's file of it, to load.

    Attributes:
        special: ids of the special tokens except the mask.
        unknown: id of the token for what is not in the vocabulary; None if there is none.

    Raises:
        ModelError: tokenizer.json cannot be read.
    """

    def __init__(self, folder: Path, max_tokens: int) -> None:
        self._file, self._most = folder / "tokenizer.json", max_tokens
        self._plain = _word_piece(self._file)
        self._entries = self._plain.entries if self._plain else self.core.get_vocab()
        settings = read_json(folder / "tokenizer_config.json")
        check_form(settings, dict[str, Any], "tokenizer_config.json")
        named = {
            key: token["content"] if isinstance(token, dict) else token
            for key, token in settings.items()
            if key.endswith("_token") and isinstance(token, dict | str)
        }
        self.unknown = self._entries.get(named.get("unk_token", ""))
        ids = [self._entries.get(token) for key, token in named.items() if key != "mask_token"]
        self.special = np.array([id for id in ids if id is not None], np.int64)

    @cached_property
    def core(self) -> Tokenizer:
        """The tokenizer as the package tokenizers has it."""
        from tokenizers import Tokenizer

        try:
            core = Tokenizer.from_file(str(self._file))
        except Exception as error:  # tokenizers raises nothing more specific
            raise ModelError(f"cannot read {self._file}: {error}") from error
        core.no_padding()
        core.enable_truncation(self._most)
        return core

    def get_vocab(self) -> dict[str, int]:
        """Return the entries, with their ids."""
        return self._entries

    def encode(self, text: str, add_special_tokens: bool = True) -> Encoding | Pieces:
        """Return the tokens of a text, as `core` has them."""
        found = self._plain.encode(text, add_special_tokens) if self._plain else None
        if found is None or len(found.ids) > self._most:
            return self.core.encode(text, add_special_tokens=add_special_tokens)
        return found

    def sentence(self, text: str) -> NDArray[np.int64]:
        """Return the tokens that a text encoder takes."""
        return np.array(self.encode(text).ids, np.int64)

    def unread(self, text: str) -> str:
        """Return the end of a sentence that a text encoder does not take; "" if it takes all."""
        encoded = self.encode(text)
        return words_after(text, encoded.offsets) if encoded.overflowing else ""

    def words(self, text: str) -> NDArray[np.int64]:
        """Return the text's own tokens, without special ones."""
        return np.array(self.encode(spaced(text), add_special_tokens=False).ids, np.int64)


def _word_piece(file: Path) -> WordPiece | None:
    """Return what splits plain texts; None: only tokenizers can, or can say what is wrong."""
    try:
        data = read_file(file)
        return WordPiece(parse_json(data)) if b'"WordPiece"' in data else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


class TypedWords:
    """Finds the words of a vocabulary in texts, given the `unknown` token of the tokenizer, if it has one.

    Of a word that the vocabulary does not have, a piece may be one: "gi" of "giraffe". A model may have
    learned what it stands for.
    """

    def __init__(
        self, vocabulary: Vocabulary, tokenizer: Tokenizer | QueryTokenizer, unknown: int | None
    ) -> None:
        self.vocabulary, self.tokenizer, self.unknown = vocabulary, tokenizer, unknown
        self.columns = lru_cache(maxsize=2**14)(self._columns)

    def _columns(self, word: str) -> tuple[int, ...]:
        """Return a word's column, or those of its pieces if the vocabulary reads pieces; -1: it has none."""
        ids = self.tokenizer.encode(spaced(word), add_special_tokens=False).ids
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


class SavedWeights:
    """The weights in a model's folder, by name; a context manager.

    Raises:
        SafetensorError, OSError: the file cannot be read, or has no weight of a name.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "model.safetensors"

    def __enter__(self) -> Self:
        self.file = safe_open(self.path, "numpy").__enter__()
        self.names = frozenset(self.file.keys())
        return self

    def __exit__(self, *error: object) -> None:
        self.file.__exit__(*error)

    def shape(self, name: str) -> list[int]:
        """Return a weight's shape."""
        shape: list[int] = self.file.get_slice(name).get_shape()
        return shape

    def tensor(self, name: str) -> NDArray:
        """Return a weight as it was before compression."""
        stored = {part: self.file.get_tensor(part) for part in self._parts(name)}
        return np.asarray(expand(stored)[name])

    def has(self, name: str) -> bool:
        """Return whether the file has such a name."""
        return name in self.names

    def floats(self, name: str) -> NDArray[np.float32]:
        """Return a weight as float32."""
        return np.asarray(self.tensor(name), np.float32)

    def vector(self, name: str) -> Vector:
        """Return a vector, which is never compressed, as float32."""
        vector: Vector = self.file.get_tensor(name).astype(np.float32)
        return vector

    def matrix(self, name: str) -> Matrix:
        """Return a matrix in int8."""
        if not self.has(name + INT8):
            return int8_rows(self.tensor(name))
        return self.file.get_tensor(name + INT8), self.file.get_tensor(name + SCALE)

    def rows(self, name: str) -> Callable[[NDArray[np.int64]], NDArray[np.float32]]:
        """Return what gives rows of a matrix, float32 [L, m] of rows [L]; it is kept in 4 or in 8 bits."""
        if self.has(name + INT4):
            packed, scales = self.file.get_tensor(name + INT4), self.file.get_tensor(name + BLOCKS)
            return lambda ids: from_int4(packed[ids], scales[ids])
        integers, scales = self.matrix(name)
        return lambda ids: integers[ids] * scales[ids, None]

    def _parts(self, name: str) -> tuple[str, ...]:
        """Return the names under which a weight is stored: its own, or those of its compressed form."""
        for parts in ((INT8, SCALE), (INT4, BLOCKS)):
            if self.has(name + parts[0]):
                return name + parts[0], name + parts[1]
        return (name,)
