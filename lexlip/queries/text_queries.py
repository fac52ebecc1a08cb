"""The text half of a saved LexLIP model, for queries: answers at once, without torch."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from scipy.sparse import csr_matrix
from tokenizers import Tokenizer

from lexlip.errors import ModelError
from lexlip.models.compression import INT8, SCALE, expand, int8_rows
from lexlip.models.model_folder import check_kind, damaged, model_folder, read_description, read_words
from lexlip.vocabulary import Vocabulary, is_content_word

if TYPE_CHECKING:
    from lexlip.models.contract import QueryEncoder
    from lexlip.queries.onnx_bert import Matrix

Vector = NDArray[np.float32]  # [V]


class TextQueries:
    """Turns sentences into vectors, one at a time, as `LexLIP.encode_text` does.

    With "words" the vectors are the same. With "network" they differ by rounding, since a BERT multiplies
    whole numbers here (see `lexlip.queries.onnx_bert`); a text encoder of another type runs in torch.

    Args:
        name: name of a packaged model, or a folder.
        encoder: "network" runs the text encoder; "words" only looks up one learned weight a word.

    Raises:
        ModelError: there is no such model, it has no words, or its files are damaged.
    """

    def __init__(self, name: str | Path, encoder: QueryEncoder = "network") -> None:
        folder = model_folder(name)
        description = read_description(folder)
        check_kind(folder, description, "lexlip")
        try:
            self.identity: str = description["identity"]
            self.tokenizer = _Tokenizer(folder, description["model"]["text"]["max_tokens"])
            words = read_words(folder / "vocabulary.txt")
            self.vocabulary = Vocabulary.from_words(words, self.tokenizer.core)
            with _weights(folder) as file:
                (size,) = file.get_slice("text_head.bias").get_shape()
            if size != len(words):
                raise ValueError(f"weights of {size} words, and a vocabulary of {len(words)} words")
            kinds = {"words": _words_encoder, "network": _network_encoder}
            self._vector = kinds[encoder](folder, description, self.tokenizer, self.vocabulary)
        except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
            raise damaged(folder, error) from error

    def encode(self, text: str) -> csr_matrix:
        """The vector of a sentence, float32 [1, V]."""
        vector = self._vector(text)
        columns = np.flatnonzero(vector)
        row = vector[columns], columns.astype(np.int32), np.array([0, len(columns)], np.int32)
        return csr_matrix(row, shape=(1, len(vector)))  # from the dense row it would take five times as long

    def unknown(self, text: str) -> list[str]:
        """The content words of a sentence that the vocabulary does not have."""
        words = re.findall(r"[^\W_]+", text)
        return [word for word in words if is_content_word(word) and not self._knows(word)]

    def _knows(self, word: str) -> bool:
        """Whether all of a word is in the vocabulary; some of its pieces alone would not carry its sense."""
        ids = self.tokenizer.words(f" {word}")  # byte-level BPE tells by the space that a word begins
        known = (self.vocabulary.lookup(ids) >= 0) & (ids != self.tokenizer.unknown)
        return len(ids) > 0 and bool(known.all())


class _Tokenizer:
    """A model's tokenizer without transformers; ids are int64 [L], cut at max_tokens.

    Attributes:
        special: ids of special tokens, but for the mask.
        unknown: id of the token for what is not in the vocabulary; None where there is none.
    """

    def __init__(self, folder: Path, max_tokens: int) -> None:
        try:
            self.core = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # tokenizers raises nothing more special
            raise ModelError(f"cannot read {folder / 'tokenizer.json'}: {error}") from error
        self.core.no_padding()
        self.core.enable_truncation(max_tokens)
        settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        named = {
            key: token["content"] if isinstance(token, dict) else token
            for key, token in settings.items()
            if key.endswith("_token") and isinstance(token, dict | str)
        }
        self.unknown: int | None = self.core.token_to_id(named.get("unk_token", ""))
        ids = [self.core.token_to_id(token) for key, token in named.items() if key != "mask_token"]
        self.special = np.array([id for id in ids if id is not None], np.int64)

    def sentence(self, text: str) -> NDArray[np.int64]:
        """The tokens that a text encoder takes."""
        return np.array(self.core.encode(text).ids, np.int64)

    def words(self, text: str) -> NDArray[np.int64]:
        """The text's own tokens."""
        return np.array(self.core.encode(text, add_special_tokens=False).ids, np.int64)


def _words_encoder(
    folder: Path, description: dict[str, Any], tokenizer: _Tokenizer, vocabulary: Vocabulary
) -> Callable[[str], Vector]:
    """The words of a text with their learned weights: what `BagOfWords` is."""
    companions = description["model"].get("companions", 0)
    with _weights(folder) as file:
        weights = np.logaddexp(0, _read_vector(file, "bag_of_words.weight"))  # softplus
        if companions:
            columns = file.get_tensor("bag_of_words.columns")
            name = "bag_of_words.values"
            values = np.maximum(expand({key: file.get_tensor(key) for key in _parts(file, name)})[name], 0)

    def encode(text: str) -> Vector:
        found = vocabulary.lookup(tokenizer.words(text))
        present = np.unique(found[found >= 0])
        vector = np.zeros(len(vocabulary), np.float32)
        vector[present] = weights[present]
        if companions:
            np.add.at(vector, columns[present], values[present])
        return vector

    return encode


def _network_encoder(
    folder: Path, description: dict[str, Any], tokenizer: _Tokenizer, vocabulary: Vocabulary
) -> Callable[[str], Vector]:
    """The text encoder and its lexicon head."""
    from lexlip.queries.onnx_bert import BertSession, is_supported

    architecture = description["text_architecture"]
    if not is_supported(architecture):
        return _torch_encoder(folder)
    with _weights(folder) as file:
        session = BertSession(
            architecture, lambda name: _read_vector(file, name), lambda name: _read_matrix(file, name)
        )
    pools_all = description["model"]["special_positions"]

    def encode(text: str) -> Vector:
        ids = tokenizer.sentence(text)
        pooled = np.flatnonzero(pools_all | ~np.isin(ids, tokenizer.special))
        if not len(pooled):
            return np.zeros(len(vocabulary), np.float32)
        vector: Vector = np.log1p(np.maximum(session.logits(ids, pooled), 0))
        return vector

    return encode


def _torch_encoder(folder: Path) -> Callable[[str], Vector]:
    from lexlip.models.lexlip import LexLIP

    model = LexLIP.from_pretrained(folder)
    return lambda text: model.encode_text([text]).toarray()[0]


def _weights(folder: Path) -> safe_open:
    return safe_open(folder / "model.safetensors", "numpy")


def _read_vector(file: safe_open, name: str) -> Vector:
    vector: Vector = file.get_tensor(name).astype(np.float32)
    return vector


def _read_matrix(file: safe_open, name: str) -> Matrix:
    parts = [file.get_tensor(part) for part in _parts(file, name)]
    return int8_rows(parts[0]) if len(parts) == 1 else (parts[0], parts[1])


def _parts(file: safe_open, name: str) -> tuple[str, ...]:
    """Under which names a matrix is stored: one, or those of `compress`."""
    small = name + INT8 in file.keys()  # noqa: SIM118 (a file is no dictionary)
    return (name + INT8, name + SCALE) if small else (name,)
