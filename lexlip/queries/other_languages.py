"""Sentences that are not English, as words of a model's lexicon; see `lexlip.models.language_model`.

Which language a sentence is in matters little, as one encoder knows them all: only whether it is English.
Negations in many languages are read as those in English are (`lexlip.queries.query_language`).
Their words, and those of marks, become words of the lexicon, of the language's table if it has one
(`lexlip.models.word_table`): of a single word, the table knows more than the encoder.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from safetensors import SafetensorError

from anserini_bridge.sparse_rows import Rows
from lexlip.errors import ModelError
from lexlip.models.language_model import MAX_TOKENS, elsewhere, fits
from lexlip.models.model_folder import begin_check, damaged, read_description
from lexlip.models.word_table import ENDINGS, WordTable, likely_table, named, named_in, word_tables
from lexlip.queries.onnx_text import begin_network
from lexlip.queries.query_language import (
    UNKNOWN,
    Query,
    ends_before,
    forms,
    is_plural,
    is_thing,
    parse_query,
    read_negations_by,
)
from lexlip.queries.saved_model import Encode, QueryTokenizer, SavedWeights, Vector
from lexlip.sparse.typed_words import Typed, as_query
from lexlip.words.function_words import LEAVE_OUT, QUERY_WORDS, languages_of_and
from lexlip.words.plain_text import spelled, words_in
from lexlip.words.vocabulary import is_content_word

NO_TABLE = WordTable("", {})
SENTENCE = "a photo of {}"
STAYS = 0.5  # of the heaviest weight in SENTENCE
SAME = 0.55  # cosine of what is encoded of a text and of the English words for it
OF_SOME = 1 / 4  # share of the queries of words that names say, where these say but some of a sentence's
LEARNED = frozenset({"ar", "cs", "zh"})
"""Languages without a table whose captions, by people, taught the encoder: names say less than it knows."""
_WORD = r"[^\W\d_]+(?:['’][^\W\d_]{1,2}(?!\w))?"  # "auto's"
_ARTICLE = (
    r"(?:(?:(?:ein(?:e[mnrs]?)?|irgendein(?:e[mnrs]?)?|de[mnrs]?|das|die|une?|les?|la|un[ao]?|el|l[ao]s?"
    r"|ning[uú]na?|il|i|gli|een|het|uma?|[ao]s?|nenhuma?)\s+)|(?:[ld]|un)['’])?"
)
_COMMA = rf"\s*,\s*{_ARTICLE}"
_OR = rf"\s+(?:oder|noch|ou|ni|o|n[eé]|nem|of|ani|lub|nebo|или|ни|або|ні|eller|sau|ili)\s+{_ARTICLE}"
_AND = rf"\s+(?:und|et|y|e|en|i|a|и|і|та|och|og|și|ja)\s+{_ARTICLE}"
_NEGATION = (
    r"(?:\b(?:aber|und|mit|es\s+gibt|mais|et|avec|(?:où\s+)?il\s+n['’]y\s+a|pero|y|con|donde|dove|onde)\s+|,\s*)?"
    rf"(?:{LEAVE_OUT}|(?<![\w'’-])pas\s+(?:d(?:e\s+|['’])|une?\s+))"
    rf"{_ARTICLE}(?P<words>{_WORD}(?:(?:{_COMMA}{_WORD})*(?:{_OR}{_WORD}|{_AND}(?:%s)(?!\w)))*)(?![\w'’-])"
)
"""A negation, given words that stand for several things: as in English, "and" goes on with these alone."""
_WORDS = re.compile(r"[^\W\d_]+")
_JOINED = re.compile(r"\w+(?:-\w+)+")  # "guarda-chuva", of which no part is a thing
_BETWEEN = re.compile(f"{_OR}|{_AND}|{_COMMA}", re.IGNORECASE)
_AFTER_AND = re.compile(rf"(?<!\s)(?=\s+(\w+)){_AND}({_WORD})", re.IGNORECASE)
_LISTED = re.compile(_NEGATION % _WORD, re.IGNORECASE)

_HAN = r"[々\u3400-\u9fff]"
_NAMED = (
    rf"(?:(?:{_HAN}|[ァ-ヶー]){{1,9}}(?:ども|たち)?|(?<![^\s、。])[ぁ-ん]{{2,9}}?)"  # "ねこ" at the beginning
)
_HANGUL, _AND_IN_KOREAN = "[가-힣]{1,9}", r"(?:(?:와|과|이?나|이?랑|하고|도)\s+|\s*,\s*)"
_AND_IN_CHINESE, _AND_BEHIND = "(?:[和或与與、]|也?[没沒]有)", r"\s+(?:és|vagy|ve|veya)\s+"
_BEHIND = tuple(
    (re.compile(pattern), re.compile(between))
    for pattern, between in (
        (
            rf"(?P<words>{_NAMED}(?:[もやとか、・]{_NAMED}){{,9}})"
            "(?:[のがはも](?:い|居|あり)?(?:ない|ません)|[のがはも]?(?:なし|無し|抜き))[ので]?",
            "(?<!ど)も|[やとか、・]",
        ),
        (
            rf"(?:[没沒]有|[没沒](?=人))(?:任何)?(?P<words>{_HAN}{{1,3}}?(?:{_AND_IN_CHINESE}{_HAN}{{1,3}}?){{,9}})"
            r"(?:的|(?![^\s,，.。、]))",
            _AND_IN_CHINESE,
        ),
        (
            rf"(?<![가-힣])(?P<words>{_HANGUL}(?:{_AND_IN_KOREAN}{_HANGUL}){{,9}}?)\s*없(?:는|이|음|다|어요?|습니다)(?!\w)",
            _AND_IN_KOREAN,
        ),
        (
            rf"\b(?P<words>{_WORD}(?:{_AND_BEHIND}{_WORD}){{,9}})\s+(?:nélküli?|olmayan|olmadan|yok)(?!\w)",
            _AND_BEHIND,
        ),
    )
)
"""Negations that stand behind what they leave out, or before it without spaces between words: in Japanese,
Chinese, Korean, and Hungarian and Turkish; and what is between several things."""
_NOBODY = {"誰": "人", "아무": "사람", "nadie": "gente"}
_PARTICLE = re.compile("(?<=.)[이가은는도을를]$")


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
            with SavedWeights(folder) as weights:
                opened = begin_network(folder, description, weights)
            self.tokenizer = QueryTokenizer(folder, description["model"]["text"]["max_tokens"])
            self._encode: Encode = opened(self.tokenizer)
        except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
            raise damaged(folder, error) from error
        check()
        self.words = words
        self._folder = folder
        self._columns = {word: column for column, word in enumerate(words)}
        self.encode = lru_cache(maxsize=256)(self._checked)  # words of marks are asked for again
        self._likely = lru_cache(maxsize=256)(likely_table)

    def _checked(self, text: str) -> Vector:
        vector = self._encode(_in_small_letters(text))
        vector.setflags(write=False)
        return vector

    def sure(self, text: str) -> str:
        """Return the heaviest word of a text, if the encoder is sure of it; "": it is not.

        Of a word that it has not learned it guesses, and something else in SENTENCE. It is sure if its word
        is still heavy there, and if the heaviest English words, as many as the text has content words, mean
        nearly the same to it as the text.
        """
        vector, words = self.encode(text), self._heaviest(text)
        said = self.encode(" ".join(words))
        lengths = float(np.linalg.norm(vector) * np.linalg.norm(said))
        if not words or float(vector @ said) < SAME * lengths:
            return ""
        sentence = self.encode(SENTENCE.format(_in_small_letters(text)))
        stays = float(sentence[self._columns[words[0]]]) >= STAYS * float(np.max(sentence))
        return words[0] if stays and sentence.any() else ""

    def knows(self, text: str) -> bool:
        """Return whether one language has names for all content words of a text, or the encoder is sure."""
        content = [word for word in words_in(text) if word.lower() not in QUERY_WORDS]
        return bool(self._names(content, UNKNOWN) or self.sure(text))

    def _heaviest(self, text: str) -> list[str]:
        """Return the heaviest words of a text, at most as many as it has content words."""
        vector, number = self.encode(text), sum(map(is_content_word, words_in(text)))
        order = np.argsort(-vector, kind="stable")[:number]
        return [self.words[column] for column in order.tolist() if vector[column] > 0]

    # ---- the table ----

    def table(self, query: Query) -> WordTable:
        """Return the table of a query's language, which it says, or its words tell; NO_TABLE of others."""
        code = query.language.partition("-")[0]
        if code == UNKNOWN:
            code = self._likely(spelled(query.text or query.sentence))  # as written, with its negations
        return word_tables().get(code, NO_TABLE)

    def typed(self, query: Query) -> Typed:
        """Return what a query's sentence holds of the lexicon, as its table knows it, or names do.

        Where names say but some of its words, these count more, as the encoder knows such languages less.
        """
        content, whole = self._content(query)
        number = len(dict(content))
        own = dict.fromkeys(one for _, english in content for one in english)
        columns = [self._columns[word] for word in own if word in self._columns]
        if columns or number == 1 or self.table(query) is not NO_TABLE:
            return Typed(columns, number, number == 1 or whole)
        some = self._some_names(query, [word for word, _ in content])
        return Typed([self._columns[word] for word in some], number, False, OF_SOME)

    def _content(self, query: Query) -> tuple[list[tuple[str, list[str]]], bool]:
        """Return the content words of a sentence as its table reads them, and whether these are all words."""
        table = self.table(query)
        read = table.read(query.sentence)
        content = [(word, english) for word, english in read if word.lower() not in QUERY_WORDS]
        words = [word for word, _ in content if not word.isdigit()]
        if table is NO_TABLE and (names := self._names(words, query.language)):
            content = [
                (word, self._by_weight(word, dict.fromkeys(filter(None, (one, self.sure(word))))))
                for word, one in zip(words, names, strict=True)
            ]
        elif table is NO_TABLE and len(words) == 1:
            content = [(word, self._shared(word)) for word in words]
        return content, len(content) == len(read)

    def _names(self, words: Sequence[str], language: str) -> list[str]:
        """Return the word of the lexicon for each word, if one language names them all; [] otherwise."""
        each = [named(word) for word in words]
        have = [{code for codes in english.values() for code in codes} for english in each]
        code = language.partition("-")[0]
        shared = set.intersection(*have) if have else set()
        if not (shared := shared if code == UNKNOWN else shared & {code}):
            return []
        found = ((one for one, codes in english.items() if not shared.isdisjoint(codes)) for english in each)
        best = [self._by_weight(word, own) for word, own in zip(words, found, strict=True)]
        return [own[0] for own in best] if all(best) else []

    def _some_names(self, query: Query, words: Iterable[str]) -> list[str]:
        """Return the words of the lexicon for those of a query's words that its language names, each once.

        If the language is not known, it is the one that names the most of them. Of LEARNED there are none.
        """
        joined = {part for whole in _JOINED.findall(query.sentence) for part in words_in(whole)}
        each = [named_in(word.lower()) for word in dict.fromkeys(words) if word not in joined]
        code = query.language.partition("-")[0]
        number = Counter(code for found in each for code in found)
        codes = [one for one in number if number[one] == max(number.values())] if code == UNKNOWN else [code]
        if not LEARNED.isdisjoint(codes):
            return []
        names = (dict.fromkeys(one for code in codes for one in found.get(code, ())) for found in each)
        best = (self._by_weight(query.sentence, own) for own in names)
        return list(dict.fromkeys(own[0] for own in best if own))

    def _shared(self, word: str) -> list[str]:
        """Return what a word means that languages share with English or a table: "man", "strand"; or []."""
        if word.lower() in self._columns:
            return [self.sure(word) or word.lower()]
        heaviest = self._heaviest(word)
        tables = word_tables().values()
        return heaviest if heaviest and any(heaviest[0] in one.english(word) for one in tables) else []

    def _also(self, word: str, names: Collection[str]) -> list[str]:
        """Return names of a word, in any language, with the one of which the encoder is sure.

        If it is, names that it does not give the word are of other languages.
        """
        if not (sure := self.sure(word)):
            return self._by_weight(word, names)
        vector = self.encode(word)
        known = [one for one in names if one in self._columns and vector[self._columns[one]] > 0]
        return self._by_weight(word, dict.fromkeys([*known, sure]))

    def _by_weight(self, word: str, english: Iterable[str]) -> list[str]:
        """Return those of some English words that the lexicon has, first those that a word means most."""
        own = [one for one in english if one in self._columns]
        if len(own) < 2:
            return own
        vector = self.encode(word)
        return sorted(own, key=lambda one: -float(vector[self._columns[one]]))

    def doubtful(self, query: Query) -> list[str]:
        """Return words of a query's sentence that neither its table has, nor any language that is known."""
        table = self.table(query)
        return [word for word in words_in(query.sentence) if self._is_doubtful(word, table)]

    def _is_doubtful(self, word: str, table: WordTable) -> bool:
        known = word.lower() in self._columns or word.lower() in QUERY_WORDS or table.english(word)
        found = elsewhere(self._folder, word)
        return word.isalpha() and not (known or (found is not None and found.languages))

    def names(self, query: Query) -> list[str]:
        """Return words of a query's sentence that may be names: nothing tells what they mean."""
        table = self.table(query)
        words = (word for word in words_in(query.sentence) if word.lower() not in QUERY_WORDS)
        return [word for word in words if not word.isdigit() and not self.english(word, table)]

    # ---- queries ----

    def vector(self, query: Query, keywords: Rows | None = None, most: int | None = None) -> Vector:
        """Return the vector of a query's sentence, float32 [V]; see `lexlip.sparse.typed_words.as_query`."""
        if not query.sentence.strip():
            return np.zeros(len(self.words), np.float32)
        return as_query(self.encode(query.sentence), self.typed(query), keywords, most)

    def known_and_unknown(self, query: Query) -> tuple[list[str], list[str]]:
        """Return the words of the lexicon that a sentence holds, and its content words if it holds none.

        With a table these are the ones that it has for the sentence's words, of each the heaviest: so the
        honest end holds as for English (`tools/studies/ends_in_languages.py`). Without one, or of a single
        word that it lacks, they are the heaviest, as many as there are content words, and only a single word
        may be unknown.
        """
        vector, table = self.encode(query.sentence), self.table(query)
        read, _ = self._content(query)
        if (table is NO_TABLE or len(read) == 1) and not any(own for _, own in read):
            unknown = self.unknown(query)
            return [] if unknown else self._heaviest(query.sentence), unknown
        columns = ([self._columns[one] for one in own if one in self._columns] for _, own in read)
        known = [self.words[max(own, key=lambda column: float(vector[column]))] for own in columns if own]
        return list(dict.fromkeys(known)), [] if known else [word for word, _ in read]

    def unknown(self, query: Query) -> list[str]:
        """Return the only content word of a sentence if nothing tells what it is: the encoder guesses."""
        content, _ = self._content(query)
        if len(content) != 1 or content[0][1] or self.sure(query.sentence):
            return []
        return [content[0][0]]

    def read(self, query: Query) -> Query:
        """Return a query whose marks and negations hold words of the lexicon instead of its own."""
        table = self.table(query)
        sentence = parse_query(query.text, negations=False).sentence if query.negations else query.sentence
        sentence, negations = self._read_negations(sentence, table)
        as_it_is = self._columns.keys() & set(query.chosen)

        def one(word: str) -> str:
            return word if word in as_it_is else next(iter(self.english(word, table)), word)

        marked = query.with_negations({}).without
        asked = self._asked(sentence, table) if marked else set()

        def all_of(word: str) -> list[str]:
            if word in as_it_is:
                return [word]
            found = self._forms(word, table)
            in_table = self._by_weight(word, table.named(word))
            return found if found and (in_table or asked.isdisjoint(found)) else [word]

        without = [form for word in marked for form in all_of(word)]
        return replace(
            query,
            sentence=_WORDS.sub(lambda found: table.written(found[0]), sentence),
            factors={one(word): factor for word, factor in query.factors.items()},
            added={one(word): factor for word, factor in query.added.items()},
            without=tuple(dict.fromkeys(without)),
            negations={},
        ).with_negations(negations)

    def english(self, word: str, table: WordTable = NO_TABLE) -> list[str]:
        """Return words of the lexicon that name what a word names, the best first; [] if none is known to.

        Of a word that the table lacks this is the encoder's, if that is sure; without a table also its names.
        """
        if table is not NO_TABLE and word.lower() in self._columns and not table.english(word):
            return [word.lower()]  # "Surfboard"
        return self._by_weight(word, table.named(word)) or self._also(
            word, named(word) if table is NO_TABLE else ()
        )

    def _read_negations(self, sentence: str, table: WordTable) -> tuple[str, dict[str, tuple[str, ...]]]:
        """Do what `read_negations` does; none leaves out what the sentence asks for."""
        patterns = [(self._with_and(sentence, table), _BETWEEN, False), *((*one, True) for one in _BEHIND)]
        patterns = [one for one in patterns if one[0].search(sentence)]
        asked: set[str] = set()

        def left_out() -> tuple[str, dict[str, tuple[str, ...]]]:
            rest, negations = sentence, dict[str, tuple[str, ...]]()
            for pattern, between, goes_on in patterns:
                things = partial(self._things, between=between, table=table, asked=asked)
                rest, read = read_negations_by(pattern, rest, things, QUERY_WORDS, goes_on)
                negations |= read
            return rest, negations

        asked = self._asked(left_out()[0], table) if patterns else asked
        return left_out()

    def _with_and(self, sentence: str, table: WordTable) -> re.Pattern[str]:
        """Return what finds negations in a sentence, given its words that stand for several things."""
        after_and = {
            word: languages
            for found in _LISTED.finditer(sentence)
            for conjunction, word in _AFTER_AND.findall(found["words"])
            if not found["words"].endswith(word) or ends_before(sentence[found.end() :], QUERY_WORDS)
            if (languages := languages_of_and(found[0], conjunction))
        }
        each = [*after_and.items()][:MAX_TOKENS]
        several = [re.escape(word) for word, languages in each if self._is_several(word, languages, table)]
        return re.compile(_NEGATION % ("|".join(several) or "(?!)"), re.IGNORECASE)

    def _is_several(self, word: str, languages: Collection[str], table: WordTable) -> bool:
        """Return whether a word stands for several things: by its English word, or as it is no name.

        Names of languages without a table are in the singular, and in a case that negations have not.
        """
        if table is NO_TABLE and word.lower() not in self._columns and ENDINGS.keys().isdisjoint(languages):
            names = {code for codes in named(word).values() for code in codes}
            return names.isdisjoint(languages) or any(map(is_plural, self.english(word)[:1]))
        return any(map(is_plural, self.english(word, table)[:1]))

    def _asked(self, sentence: str, table: WordTable) -> set[str]:
        """Return the words of the lexicon that a sentence asks for, in both numbers.

        Of words that the table lacks, these are the heaviest that the encoder has for them together.
        """
        words = [word for word in words_in(sentence) if word.lower() not in QUERY_WORDS][:MAX_TOKENS]
        lacked = " ".join(word for word in words if not table.english(word))
        known = (one for word in words for one in table.named(word))
        heaviest = self._heaviest(sentence if table is NO_TABLE else lacked)
        return {form for one in (*known, *heaviest) for form in forms(one)}

    def _things(
        self, words: str, between: re.Pattern[str], table: WordTable, asked: Collection[str]
    ) -> tuple[str, ...]:
        """Return the words of the lexicon for what a negation names; () if one is no thing to leave out.

        A word that nothing names, or that names what is `asked` for, stays as it is, and so leaves out
        nothing, but is said to be unknown.
        """
        things: list[str] = []
        for word in between.split(words):
            bare = _PARTICLE.sub("", word)  # "사람이"
            word = _NOBODY.get(bare) or (bare if named(bare) and not named(word) else word)
            found = self.english(word, table)
            if word.lower() in QUERY_WORDS or not all(is_thing(one, {one: 1}) for one in found):
                return ()
            own = self._forms(word, table)
            things += own if own and not any(form in asked for form in own) else [word]
        return tuple(dict.fromkeys(things))

    def _forms(self, word: str, table: WordTable) -> list[str]:
        """Return the words of the lexicon for a word, in both numbers as far as it has them."""
        found = [form for english in self.english(word, table) for form in forms(english)]
        return [form for form in dict.fromkeys(found) if form in self._columns]


def _in_small_letters(text: str) -> str:
    """Return a text of capitals in small letters, as an encoder has seen few of these."""
    return text.lower() if text.isupper() else text
