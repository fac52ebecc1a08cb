"""Sentences that are not English, as words of a model's lexicon; see `lexlip.models.language_model`.

Which language a sentence is in matters little, as one encoder knows them all: only whether it is English.
Negations in German, French and Spanish are read as those in English are (`lexlip.queries.query_language`).
Their words, and those of marks, become words of the lexicon.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from safetensors import SafetensorError

from lexlip.errors import ModelError
from lexlip.models.language_model import fits
from lexlip.models.model_folder import begin_check, damaged, read_description
from lexlip.queries.onnx_text import network
from lexlip.queries.query_language import Query, forms, is_thing, parse_query, read_negations_by
from lexlip.queries.saved_model import Encode, QueryTokenizer, SavedWeights, Vector
from lexlip.sparse.top_words import heaviest
from lexlip.words.function_words import FUNCTION_WORDS, ROMANCE_AND_DUTCH
from lexlip.words.plain_text import words_in
from lexlip.words.vocabulary import is_content_word

_FUNCTION_WORDS = FUNCTION_WORDS | ROMANCE_AND_DUTCH
_WORD = r"[^\W\d_]+"
_ARTICLE = (
    r"(?:(?:(?:ein(?:e[mnrs]?)?|irgendein(?:e[mnrs]?)?|de[mnrs]|das|die|une?|les?|la|de|un[ao]?|el|l[ao]s"
    r"|ning[uú]na?)\s+)|[ld]['’])?"
)
_NEGATION = re.compile(  # of German, French and Spanish
    r"(?:\b(?:aber|und|mit|mais|et|avec|pero|y|con)\s+|,\s*)?"
    r"(?<![\w'’-])(?:(?:ohne|kein(?:e[mnrs]?)?|sans|aucune?|sin|ning[uú]na?)\s+|pas\s+d(?:e\s+|['’]))"
    rf"{_ARTICLE}(?P<words>{_WORD}(?:\s+(?:oder|noch|ou|ni|o)\s+{_ARTICLE}{_WORD})*)(?![\w'’-])",
    re.IGNORECASE,
)
_OR = re.compile(rf"\s+(?:oder|noch|ou|ni|o)\s+{_ARTICLE}", re.IGNORECASE)


class OtherLanguages:
    """Encodes sentences of other languages for a model, without torch.

    Args:
        folder: of the encoder.
        model: the model's folder.
        identity, words: the model's.

    Raises:
        ModelError: the encoder is of another model, or its files are damaged.
    """

    def __init__(self, folder: Path, model: Path, identity: str, words: Sequence[str]) -> None:
        check = begin_check(folder)
        description = read_description(folder)
        if not fits(folder, model, identity):
            raise ModelError(
                f"lexlip-languages knows other languages for {' and '.join(description['models'])}, and the"
                f" model here is {identity}: say it in English"
            )
        try:
            self.tokenizer = QueryTokenizer(folder, description["model"]["text"]["max_tokens"])
            with SavedWeights(folder) as weights:
                self._encode: Encode = network(folder, description, weights, self.tokenizer)
        except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
            raise damaged(folder, error) from error
        check()
        self.words = words
        self._columns = frozenset(words)
        self.encode = lru_cache(maxsize=256)(self._checked)  # words of marks are asked for again

    def _checked(self, text: str) -> Vector:
        vector = self._encode(text)
        vector.setflags(write=False)
        return vector

    def vector(self, query: Query, most: int | None = None) -> Vector:
        """Return the vector of a query's sentence, float32 [V], of which at most so many words stay."""
        if not query.sentence.strip():
            return np.zeros(len(self.words), np.float32)
        return heaviest(self.encode(query.sentence), most)

    def word(self, word: str) -> str | None:
        """Return the word of the lexicon that says most of what a word of another language says."""
        vector = self.encode(word)
        return self.words[int(np.argmax(vector))] if vector.any() else None

    def known(self, text: str) -> list[str]:
        """Return the heaviest words of a sentence, as many as it has content words."""
        number = sum(map(is_content_word, words_in(text)))
        vector = self.encode(text)
        order = np.argsort(-vector, kind="stable")[:number]
        return [self.words[column] for column in order.tolist() if vector[column] > 0]

    def read(self, query: Query) -> Query:
        """Return a query whose marks and negations hold words of the lexicon instead of its own."""
        sentence = parse_query(query.text, negations=False).sentence if query.negations else query.sentence
        sentence, negations = read_negations_by(_NEGATION, sentence, self._things, _FUNCTION_WORDS)
        without = [form for word in query.with_negations({}).without for form in self._forms(word) or [word]]
        return replace(
            query,
            sentence=sentence,
            factors={self.word(word) or word: factor for word, factor in query.factors.items()},
            added={self.word(word) or word: factor for word, factor in query.added.items()},
            without=tuple(dict.fromkeys(without)),
            negations={},
        ).with_negations(negations)

    def _things(self, named: str) -> tuple[str, ...]:
        """Return the words of the lexicon for what a negation names; () if one is no thing to leave out."""
        things = []
        for word in _OR.split(named):
            found = None if word.lower() in _FUNCTION_WORDS else self.word(word)
            if found is None or not is_thing(found, {found: 1}):
                return ()
            things += self._forms(word)
        return tuple(things)

    def _forms(self, word: str) -> list[str]:
        """Return the word of the lexicon for a word, in both numbers as far as it has them."""
        found = self.word(word)
        return [] if found is None else [form for form in forms(found) if form in self._columns]
