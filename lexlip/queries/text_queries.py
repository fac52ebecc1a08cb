"""Encodes the sentences that are searched with, by the text half of a saved LexLIP model, without torch."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors import SafetensorError
from scipy.sparse import csr_matrix

from lexlip.models.model_folder import check_kind, damaged, model_folder, read_description, read_words
from lexlip.queries.query_language import Query
from lexlip.queries.query_tokenizer import QueryTokenizer
from lexlip.queries.saved_weights import SavedWeights
from lexlip.sparse.topk import topk
from lexlip.vocabulary import Vocabulary, is_content_word

if TYPE_CHECKING:
    from lexlip.models.contract import QueryEncoder
    from lexlip.queries.saved_weights import Encode


class TextQueries:
    """Encodes sentences, one at a time, as `LexLIP.encode_text` does.

    With "words" the vectors are the same. With "network" they differ by rounding, since a BERT multiplies
    integers here (see `lexlip.queries.onnx_bert`); a text encoder of another type runs in torch.

    Args:
        name: name of a packaged model, or a folder.
        encoder: "network" runs the text encoder; "words" only looks up one learned weight for each word.

    Raises:
        ModelError: there is no such model, it has no words, or its files are damaged.
    """

    def __init__(self, name: str | Path, encoder: QueryEncoder = "network") -> None:
        self.folder = folder = model_folder(name)
        description = read_description(folder)
        check_kind(folder, description, "lexlip")
        try:
            self.identity: str = description["identity"]
            self.tokenizer = QueryTokenizer(folder, description["model"]["text"]["max_tokens"])
            words = read_words(folder / "vocabulary.txt")
            self.vocabulary = Vocabulary.from_words(words, self.tokenizer.core)
            with SavedWeights(folder) as weights:
                (size,) = weights.shape("text_head.bias")
                if size != len(words):
                    raise ValueError(f"weights of {size} words, and a vocabulary of {len(words)} words")
                self._vector: Encode
                if encoder == "words":
                    from lexlip.queries.bag_of_words import bag_of_words

                    companions = description["model"].get("companions", 0) > 0
                    self._vector = bag_of_words(weights, companions, self.tokenizer, self.vocabulary)
                else:
                    from lexlip.queries.network import network

                    self._vector = network(folder, description, weights, self.tokenizer)
        except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
            raise damaged(folder, error) from error

    def encode(self, text: str) -> csr_matrix:
        """Return the vector of a sentence, float32 [1, V]."""
        vector = self._vector(text)
        columns = np.flatnonzero(vector)
        row = vector[columns], columns.astype(np.int32), np.array([0, len(columns)], np.int32)
        return csr_matrix(row, shape=(1, len(vector)))  # converting the dense row takes five times as long

    def encode_query(self, query: Query, most: int | None = None) -> csr_matrix:
        """Return the vector of a query with its marks, float32 [1, V].

        Args:
            query: what is asked.
            most: words that its sentence keeps; None keeps all.
        """
        if not query.marked:
            return topk(self.encode(query.sentence), most)
        vector = csr_matrix((1, len(self.vocabulary)), dtype=np.float32)
        if query.sentence.strip():
            vector = topk(self.encode(query.sentence), most)
        return self.adjust(vector, query)

    def adjust(self, vector: csr_matrix, query: Query) -> csr_matrix:
        """Return the vector of a query's sentence with its marks applied, float32 [1, V].

        A word is added at the weight of the heaviest word of the vector, or at 1 if there is none; so is a
        word that is to be multiplied and that the vector lacks.
        """
        heaviest = float(vector.data.max(initial=0)) or 1.0
        weights = dict(zip(vector.indices.tolist(), vector.data.tolist(), strict=True))
        for word, factor in query.factors.items():
            if (column := self.column(word)) is not None:
                weights[column] = factor * weights.get(column, heaviest)
        for word, factor in query.added.items():
            if (column := self.column(word)) is not None:
                weights[column] = factor * heaviest
        columns = sorted(column for column, weight in weights.items() if weight > 0)
        values = np.array([weights[column] for column in columns], np.float32)
        row = values, np.array(columns, np.int32), np.array([0, len(columns)], np.int32)
        return csr_matrix(row, shape=vector.shape)

    def column(self, word: str) -> int | None:
        """Return a word's column in the vectors; None if it is no word of the vocabulary."""
        columns = self._columns(word)
        return columns[0] if len(columns) == 1 and columns[0] >= 0 else None

    def known(self, text: str) -> list[str]:
        """Return the vocabulary's words that a sentence itself holds, in order, without function words.

        Of a word that the vocabulary does not have, a piece may be one: "gi" of "giraffe". A model may have
        learned what it stands for.
        """
        columns = [column for word in _content_words(text) for column in self._columns(word) if column >= 0]
        words = [self.vocabulary.words[column] for column in dict.fromkeys(columns)]
        return [word for word in words if is_content_word(word)]

    def unknown(self, query: str | Query) -> list[str]:
        """Return the content words of a sentence, and the words of marks, that the vocabulary lacks."""
        if isinstance(query, Query):
            marked = [word for word in query.words if self.column(word) is None]
            return list(dict.fromkeys([*self.unknown(query.sentence), *marked]))
        return [word for word in _content_words(query) if min(self._columns(word), default=-1) < 0]

    def unread(self, query: str | Query) -> str:
        """Return the end of a sentence that is too long for the model; "" if it reads all."""
        return self.tokenizer.unread(query.sentence if isinstance(query, Query) else query)

    def _columns(self, word: str) -> list[int]:
        """Return a word's column, or those of its pieces if the vocabulary reads pieces; -1: it has none."""
        ids = self.tokenizer.words(f" {word}")  # byte-level BPE knows by the space that a word begins
        if self.tokenizer.unknown in ids:
            return [-1]
        return self.vocabulary.read(ids.tolist())


def _content_words(text: str) -> list[str]:
    return [word for word in re.findall(r"[^\W_]+", text) if is_content_word(word)]
