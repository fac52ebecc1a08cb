"""Encodes the sentences that are searched with, by the text half of a saved LexLIP model, without torch."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors import SafetensorError

from lexlip.errors import ModelError
from lexlip.models.language_model import (
    MAX_TOKENS,
    check_installed,
    elsewhere,
    english_phrase,
    fits,
    how_to_install,
    installed,
    plural_of,
    without_english_phrases,
)
from lexlip.models.model_folder import (
    begin_check,
    check_kind,
    damaged,
    is_packaged,
    model_folder,
    read_description,
    read_words,
)
from lexlip.models.word_table import OF_OTHERS, likely_table, named, word_tables
from lexlip.queries.query_language import ENGLISH, SHORTEST, UNKNOWN, Query, forms, nearest_words
from lexlip.queries.saved_model import Encode, QueryTokenizer, SavedWeights, TypedWords, Vector
from lexlip.sparse.rows import row_of
from lexlip.sparse.typed_words import as_query, load_keywords
from lexlip.words.function_words import LEAVE_OUT, QUERY_LANGUAGES, QUERY_WORDS, is_latin, looks_foreign
from lexlip.words.plain_text import words_in
from lexlip.words.vocabulary import Vocabulary, is_content_word

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from lexlip.models.contract import QueryEncoder
    from lexlip.queries.other_languages import OtherLanguages

SHORT = 5  # letters of a word that may be a slip
MIXED = 3  # content words of an English query of which some may be of other languages
_NUMBERED = r"[^\W\d][_-]?\d"  # "IMG_1234", "dsc-01"


class TextQueries:
    """Encodes sentences, one at a time, as `LexLIP.encode_text` does.

    With the encoder "words", which only looks up one learned weight for each word, the vectors are the same.
    With "network" they differ by rounding, since a lexicon head's BERT multiplies integers here (see
    `lexlip.queries.onnx_text`); a text encoder of another type than BERT, CLIP's or SigLIP's runs in torch.

    Raises:
        ModelError: there is no such model, it has no words, or its files are damaged.
    """

    def __init__(self, name: str | Path, encoder: QueryEncoder = "network") -> None:
        self.folder = folder = model_folder(name)
        check = begin_check(folder)
        description = read_description(folder)
        check_kind(folder, description, "lexlip")
        try:
            self.identity: str = description["identity"]
            words = read_words(folder / "vocabulary.txt")
            with SavedWeights(folder) as weights:
                if encoder == "network":
                    from lexlip.queries.onnx_text import begin_network

                    opened = begin_network(folder, description, weights)  # a thread opens it meanwhile
                self.tokenizer = QueryTokenizer(folder, description["model"]["text"]["max_tokens"])
                self.vocabulary = Vocabulary.from_words(words, self.tokenizer)
                (size,) = weights.shape("text_head.bias")
                if size != len(words):
                    raise ValueError(f"weights of {size} words, and a vocabulary of {len(words)} words")
                self._vector: Encode
                if encoder == "network":
                    self._vector = opened(self.tokenizer)
                else:
                    companions = description["model"].get("companions", 0) > 0
                    self._vector = bag_of_words(weights, companions, self.tokenizer, self.vocabulary)
            self._lexicon, self._counts = frozenset(words), dict.fromkeys(words, 1)
            self.typed = TypedWords(self.vocabulary, self.tokenizer, self.tokenizer.unknown)
            self.keywords = load_keywords(folder, len(words))
        except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
            raise damaged(folder, error) from error
        check()
        self._knows_languages = encoder == "network"
        self._others: OtherLanguages | None = None
        self._loading = threading.Lock()

    # ---- other languages ----

    @cached_property
    def _folder_of_others(self) -> Path | None:
        """The folder of the encoder of other languages; None: there is none for this model."""
        folder = installed() if self._knows_languages else None
        return folder if folder is not None and fits(folder, self.folder, self.identity) else None

    @property
    def tells_languages(self) -> bool:
        """Whether sentences in other languages are told from English ones."""
        return self._folder_of_others is not None

    @property
    def others(self) -> OtherLanguages:
        """What encodes sentences that are not English.

        Raises:
            MissingPackage: lexlip-languages is not installed.
            ModelError: it is for another model, or there is no network (see `encoder`).
        """
        with self._loading:
            if self._others is None:
                from lexlip.queries.other_languages import OtherLanguages

                if not self._knows_languages:
                    raise ModelError("other languages need the network: leave out --query-encoder words")
                words = self.vocabulary.words
                self._others = OtherLanguages(check_installed(), self.folder, self.identity, words)
            return self._others

    def language_of(self, query: Query) -> str:
        """Return the language of a query, as in `Query.language`; English, where others cannot be encoded.

        A sentence is not English if it looks so (`looks_foreign`); or if the lexicon has none of its content
        words, and half of them are words of other languages alone; or if one word is no English one, and all
        are of one other language ("chat noir", "le chat"), or something is left out ("mesa sin
        comida"). Phrases that English uses do not count: "grand prix", "a day in los angeles". If none of its
        words is known to be English, nor likely to be mistyped, it is in another language if this has names
        for all, or the encoder is sure of it.
        """
        written = [word for word in (*query.added, *query.without) if word not in query.chosen]
        folder, text = self._folder_of_others, " ".join([query.sentence, *written])
        if folder is None:
            return ENGLISH
        foreign = self._is_foreign_text(folder, text)
        if not foreign and written and self._is_foreign_text(folder, query.sentence):
            foreign, written = True, []  # "Katze -dog"
        if not foreign:
            return UNKNOWN if self._may_be_foreign(folder, text) and self.others.knows(text) else ENGLISH
        words = words_in(query.sentence)[:MAX_TOKENS]  # what is read
        rest = without_english_phrases(folder, words)
        if rest == words:
            return UNKNOWN
        rest = [*rest, *written]
        still = looks_foreign(" ".join(rest), rest)  # whatever of the rest is known
        still |= not _of_others(self._lexicon).isdisjoint(word.lower() for word in rest)
        return UNKNOWN if still or self._is_foreign_text(folder, " ".join(rest)) else ENGLISH

    def _is_foreign_text(self, folder: Path, text: str) -> bool:
        """Return whether a text is not English, with all of its words; see `language_of`."""
        words = [word for word in words_in(text.lower()) if not word.isdigit()]
        content = [word for word in words if is_content_word(word)]
        if not content:
            return False
        unknown = self.typed.missing(text)
        if unknown and looks_foreign(text, unknown):
            return True
        strange = [word for word in content if word not in self._lexicon]
        foreign = [word for word in strange if self._is_foreign_word(folder, word)]
        accented = {
            word
            for word in words_in(text)
            if word in strange and not word.isascii() and not self._is_english_word(folder, word)
        }  # and no name, as it has no capital
        several = accented.union(foreign) if accented and foreign else ()  # one is a loan: "müsli bowl"
        if len(several) > 1 and 2 * len(several) >= len(content) and _english_alone().isdisjoint(words):
            return True  # "flicka äter glass"
        marked = {word for word in accented if re.search(OF_OTHERS, word)}
        if len(strange) == len(content) and self._is_rather_foreign(folder, text, marked.union(foreign)):
            return True
        lacked = [word for word in strange if word not in QUERY_WORDS]
        plain = [word for word in content if word not in QUERY_WORDS]
        if lacked and 3 * len(lacked) >= len(plain) and _has_strong_words(folder, words, self._lexicon):
            return True
        others = _of_others(self._lexicon)
        if others.issuperset(content) or not (foreign or others.issuperset(strange)):
            return False
        if foreign and re.search(LEAVE_OUT, text, re.IGNORECASE):
            return True
        return any(
            (foreign or not (functions & others).isdisjoint(words))
            and all(_is_of(folder, code, word) for word in words)
            for code, functions in QUERY_LANGUAGES.items()
            if code != ENGLISH
        )

    def _is_rather_foreign(self, folder: Path, text: str, foreign: Collection[str]) -> bool:
        """Return whether a text without words of the lexicon is foreign, given those that are.

        Half of its words are; or no function word is English alone, and none of the others, a slip or a name.
        """
        content = [word for word in words_in(text) if is_content_word(word.lower()) and not word.isdigit()]
        others = [word for word in content if word.lower() not in foreign]
        if 2 * len(others) <= len(content):
            return True
        return (
            bool(foreign)
            and all(
                bool(found.languages)
                if (found := elsewhere(folder, word))
                else word.islower() and not self._is_english_word(folder, word)
                for word in others
            )
            and _english_alone().isdisjoint(words_in(text.lower()))
        )

    def _is_foreign_word(self, folder: Path, word: str) -> bool:
        """Return whether a word that the lexicon lacks is one of other languages alone.

        A short plural that resembles a word of the lexicon is rather a slip: "sady".
        """
        found, tables = elsewhere(folder, word), word_tables().values()
        if found is None and plural_of(folder, word):
            return len(word) > SHORT or not nearest_words(word, self._counts, 1)
        if found is not None and found.languages:
            return not found.english
        return any(table.has(word) if found else table.english(word) for table in tables)  # "rotes" is rare

    def _may_be_foreign(self, folder: Path, text: str) -> bool:
        """Return whether no word of a text is known to be English, or resembles one that the lexicon has.

        Names of files are no words of a language: "IMG_1234".
        """
        words = [word for word in words_in(text.lower()) if not word.isdigit()]
        content = [word for word in words if is_content_word(word) and word not in _of_others(self._lexicon)]
        return (
            bool(content)
            and not re.search(_NUMBERED, text)
            and _english_alone().isdisjoint(words)
            and self._lexicon.isdisjoint(words)
            and not any(self._is_english_word(folder, word) for word in content)
        )

    def _is_english_word(self, folder: Path, word: str) -> bool:
        """Return whether a word that the lexicon lacks is English, or may be a slip of one that it has."""
        found = elsewhere(folder, word)
        if found is not None:
            return found.english
        if not word.isascii():
            return False
        is_code = len(word) < SHORTEST or not word.isalpha()  # "b", "13th"
        return is_code or bool(nearest_words(word, self._counts, 1))

    def other_languages(self, query: Query) -> tuple[str, ...]:
        """Return languages that have an English query, a single word or phrase, with another meaning."""
        folder, words = self._folder_of_others, words_in(query.sentence)
        if query.language != ENGLISH or not words or folder is None:
            return ()
        content = [word.lower() for word in words if is_content_word(word.lower())]
        if len(words) > 1 and self._lexicon.issuperset(content):
            return ()
        found = elsewhere(folder, words[0]) if len(words) == 1 else english_phrase(folder, words)
        return found.languages if found is not None and found.english else ()

    def shown_in(self, query: Query) -> str:
        """Return the language in which the words of an answer are shown; "": English."""
        return self.others.table(query).language if _is_foreign(query) else ""

    def doubtful(self, query: Query) -> list[str]:
        """Return words of a sentence in another language that may be mistyped."""
        return self.others.doubtful(query) if _is_foreign(query) else []

    def names(self, query: Query) -> list[str]:
        """Return words of a sentence in another language that may be names."""
        return self.others.names(query) if _is_foreign(query) else []

    def is_foreign_word(self, word: str, query: Query) -> bool:
        """Return whether a word that the lexicon lacks is one of another language, and so no slip.

        In an English query, this is a word of a table alone, as others resemble slips: "gril".
        """
        if (folder := self._folder_of_others) is None:
            return False
        found = elsewhere(folder, word) if _is_foreign(query) else None
        listed = found is not None and bool(found.languages)
        return listed or any(table.english(word) for table in word_tables().values())

    def lacks_languages(self) -> str:
        """Return the command that makes other languages known; "" if they are, or if it would not help."""
        can_have = self._knows_languages and is_packaged(str(self.folder))
        return how_to_install() if can_have and installed() is None else ""

    def in_english(self, sentence: str) -> str:
        """Return an English sentence of few words with English ones for those that only other languages have.

        "red Fahrrad" is "red bicycle". In longer sentences such words are rather names or mistyped. So are
        those in Latin letters that no table has, or that only German would begin with a capital: "Luna cat".
        """
        content = [word for word in words_in(sentence) if is_content_word(word.lower())]
        strange = {word for word in content if word.lower() not in self._lexicon and not word.isdigit()}
        folder = self._folder_of_others
        if folder is None or not 0 < len(strange) < len(content) <= MIXED:
            return sentence
        strange &= {*without_english_phrases(folder, words_in(sentence))}
        english = {word: one for word in strange if (one := self._in_english(folder, word))}
        words = re.compile("|".join(map(re.escape, sorted(words_in(sentence), key=len, reverse=True))))
        return words.sub(lambda found: english.get(found[0], found[0]), sentence) if english else sentence

    def _in_english(self, folder: Path, word: str) -> str:
        """Return the English word for one that only other languages have; "": it is English, or unknown."""
        if not (self._is_foreign_word(folder, word.lower()) or named(word)):  # which has no English words
            return ""
        if not is_latin(word):
            return next(iter(self.others.english(word)), "")
        table = word_tables().get(likely_table(word))
        if table is None or not table.english(word) or (word.istitle() and table.language != "de"):
            return ""
        return next(iter(self.others.english(word, table)), "")

    # ---- queries ----

    def encode(self, text: str) -> csr_matrix:
        """Return the vector of a sentence, float32 [1, V]."""
        return row_of(self._vector(text))

    def encode_query(self, query: Query, most: int | None = None) -> csr_matrix:
        """Return the vector of a query with its marks, float32 [1, V]; see `vector`."""
        return row_of(self.vector(query, most))

    def vector(self, query: Query, most: int | None = None) -> Vector:
        """Return the vector of a query with its marks, float32 [V]; see `lexlip.sparse.typed_words`.

        At most so many words of its sentence stay; None keeps all.
        """
        if _is_foreign(query):
            vector = self.others.vector(query, self.keywords, most)
            return self.adjust(vector, query) if query.marked else vector
        vector = np.zeros(len(self.vocabulary), np.float32)
        sentence = self.in_english(query.sentence)
        if sentence.strip() or not (query.marked or query.narrowed):
            typed = self.typed.of(sentence)
            if self.keywords is None or not typed.columns or typed.share < 1:  # else it does not matter
                vector = self._vector(sentence)
            vector = as_query(vector, typed, self.keywords, most)
        return self.adjust(vector, query) if query.marked else vector

    def adjust(self, vector: Vector, query: Query) -> Vector:
        """Return the vector of a query's sentence with its marks applied, float32 [V].

        A word is added at the weight of the heaviest word of the vector, or at 1 if there is none; so is a
        word that is to be multiplied, but not by 1, and that the vector lacks.
        """
        heaviest, adjusted = float(np.max(vector, initial=0)) or 1.0, vector.copy()
        for word, factor in query.factors.items():
            if factor != 1 and (column := self.column(word)) is not None:
                adjusted[column] = factor * (float(adjusted[column]) or heaviest)
        for word, factor in query.added.items():
            if (column := self.column(word)) is not None:
                adjusted[column] = factor * heaviest
        return np.maximum(adjusted, 0)

    def read(self, query: Query) -> Query:
        """Return a query in its language, whose negations leave out both numbers of a noun, if known.

        Marks and negations in another language leave out and weigh words of the lexicon.
        """
        query = query if query.language else replace(query, language=self.language_of(query))
        if _is_foreign(query):
            return self.others.read(query)
        if self._folder_of_others is not None and query.marked:
            query = self._with_marks_in_english(self._folder_of_others, query)
        negations = {}
        for phrase, words in query.negations.items():
            known = [form for word in words for form in forms(word) if self.column(form) is not None]
            negations[phrase] = tuple(known) or words
        return query.with_negations(negations)

    def _with_marks_in_english(self, folder: Path, query: Query) -> Query:
        """Return an English query that marks, or leaves out, English words instead: "-perro"."""
        lacked = [word for word in query.words if self.column(word) is None]
        if not (english := {word: one for word in lacked if (one := self._in_english(folder, word))}):
            return query

        def all_of(word: str) -> list[str]:
            found = forms(english[word]) if word in english else [word]
            return [form for form in found if form == word or self.column(form) is not None]

        without = tuple(form for word in query.minus for form in all_of(word))
        return replace(
            query,
            factors={english.get(word, word): factor for word, factor in query.factors.items()},
            added={english.get(word, word): factor for word, factor in query.added.items()},
            without=without,
            negations={},
        ).with_negations(
            {
                text: tuple(english.get(word, word) for word in words)
                for text, words in query.negations.items()
            }
        )

    def column(self, word: str) -> int | None:
        """Return a word's column in the vectors; None if it is no word of the vocabulary."""
        columns = self.typed.columns(word)
        return columns[0] if len(columns) == 1 and columns[0] >= 0 else None

    def known(self, text: str) -> list[str]:
        """Return the vocabulary's words that a sentence itself holds; see `TypedWords`."""
        return [self.vocabulary.words[column] for column in self.typed.of(text).columns]

    def known_and_unknown(self, query: Query) -> tuple[list[str], list[str]]:
        """Return the words that a query holds, those of the vocabulary and the content words that it lacks.

        Of other languages see `OtherLanguages.known_and_unknown`.
        """
        if _is_foreign(query):
            known, unknown = self.others.known_and_unknown(query)
            return [*known, *query.added], unknown
        plain = self.in_english(query.plain)
        return self.known(plain), self.unknown(plain)

    def held(self, query: Query) -> Sequence[int]:
        """Return the columns of words that a query contains, in its language."""
        if _is_foreign(query):
            return self.others.typed(query).columns
        return self.vocabulary.columns(self.tokenizer.words(self.in_english(query.plain)).tolist())

    def unknown(self, query: str | Query) -> list[str]:
        """Return the content words of a sentence, and the words of marks, that the vocabulary lacks."""
        if isinstance(query, Query):
            marked = [word for word in query.words if self.column(word) is None]
            if _is_foreign(query):
                of_sentence = self.others.unknown(query)
            else:
                of_sentence = self.unknown(self.in_english(query.sentence))
            return list(dict.fromkeys([*of_sentence, *marked]))
        return self.typed.missing(query)

    def unread(self, query: str | Query) -> str:
        """Return the end of a sentence that is too long for the model; "" if it reads all."""
        if isinstance(query, Query) and _is_foreign(query):
            return self.others.tokenizer.unread(query.sentence)
        return self.tokenizer.unread(query.sentence if isinstance(query, Query) else query)


@cache
def _of_others(lexicon: frozenset[str]) -> frozenset[str]:
    """Return function words of other languages alone, that no lexicon of English has."""
    return QUERY_WORDS - QUERY_LANGUAGES[ENGLISH] - lexicon


@cache
def _english_alone() -> frozenset[str]:
    """Return function words of English that no other language has."""
    others = (words for code, words in QUERY_LANGUAGES.items() if code != ENGLISH)
    return QUERY_LANGUAGES[ENGLISH].difference(*others)


def _has_strong_words(folder: Path, words: Collection[str], lexicon: frozenset[str]) -> bool:
    """Return whether words of a text have function words that no English has, and none of English alone."""
    if not _english_alone().isdisjoint(words):
        return False
    strong = (word for word in words if word in _of_others(lexicon) and len(word) >= SHORTEST)
    return any((found := elsewhere(folder, word)) is None or not found.english for word in strong)


def _is_of(folder: Path, code: str, word: str) -> bool:
    """Return whether a language has a word."""
    found, table = elsewhere(folder, word), word_tables().get(code)
    listed = code in (found.languages if found is not None else plural_of(folder, word))
    return listed or word in QUERY_LANGUAGES[code] or (table is not None and bool(table.english(word)))


def _is_foreign(query: Query) -> bool:
    return query.language not in ("", ENGLISH)


def bag_of_words(
    weights: SavedWeights, companions: bool, tokenizer: QueryTokenizer, vocabulary: Vocabulary
) -> Encode:
    """Return what encodes sentences by looking up their words, as `lexlip.encoders.lexicon.BagOfWords` does.

    With companions, each word also adds the weights of its own.
    """
    of_words = np.logaddexp(0, weights.vector("bag_of_words.weight"))  # softplus
    if companions:
        columns = weights.tensor("bag_of_words.columns")
        of_companions = np.maximum(weights.tensor("bag_of_words.values"), 0)

    def encode(text: str) -> Vector:
        present = np.array(sorted({*vocabulary.columns(tokenizer.words(text).tolist())}), np.int64)
        vector = np.zeros(len(vocabulary), np.float32)
        vector[present] = of_words[present]
        if companions:
            np.add.at(vector, columns[present], of_companions[present])
        return vector

    return encode
