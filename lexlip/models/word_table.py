"""A lexicon's words in other languages, in which they are shown, typed and suggested.

The package lexlip-languages brings a table of them, TABLE, beside the encoder's folder: a line for each
English word, and a column for each language, with its code above. A word that has none in a language stays
English. Of languages without a column it has NAMES, by which single words are found: a line for each word,
with the English words that name the same, and behind each the codes of the languages.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path

from lexlip.errors import ConfigError
from lexlip.models.language_model import PLURALS, check_installed, elsewhere, installed, line_of
from lexlip.models.model_folder import damaged
from lexlip.words.function_words import QUERY_LANGUAGES, is_latin
from lexlip.words.plain_text import folded, words_in

TABLE = "translations.tsv"
NAMES = "names.tsv.gz"
SPELLED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "œ": "oe"})
ENDINGS = {
    "de": [("e", ""), ("er", ""), ("es", ""), ("en", ""), ("em", ""), ("n", ""), ("s", "")],
    "fr": [("e", ""), ("s", ""), ("es", ""), ("x", "")],
    "es": [("s", ""), ("es", ""), ("a", "o"), ("as", "o"), ("os", "o")],
}
"""Endings of forms that a table lacks, and what is in their place in a form that it may have."""
UMLAUTS = {"ae": "ä", "oe": "ö", "ue": "ü"}
_UMLAUTS = "|".join(UMLAUTS)
OF_VERBS = {
    "de": [("t", "en"), *((f"end{ending}", "en") for ending in ("", "e", "em", "en", "er", "es"))],
    "fr": [("e", "er"), ("ent", "er"), ("ant", "er")],
    "es": [
        *(("a", "ar"), ("an", "ar"), ("ando", "ar")),
        *(("e", "er"), ("en", "er"), ("iendo", "er"), ("e", "ir"), ("en", "ir"), ("iendo", "ir")),
    ],
}
"""Endings of verbs, of which a table has infinitives."""
IRREGULAR = {
    "de": {"gibt": "geben", "isst": "essen", "liest": "lesen", "sieht": "sehen", "wirft": "werfen"},
    "fr": {
        **{"blanche": "blanc", "blanches": "blanc", "belle": "beau", "belles": "beau", "longue": "long"},
        **{"vieille": "vieux", "vieilles": "vieux", "nouvelle": "nouveau", "douce": "doux"},
    },
    "es": {"juega": "jugar", "juegan": "jugar", "duerme": "dormir", "duermen": "dormir"},
}
OF_PLURALS = {"de": ("e", "n"), "fr": ("s", "x"), "es": ("s", "es")}
"""Endings of nouns in the plural, of which a table may have no singular: of "sheep", "grapes"."""
OF_NOUNS = {"n", "s"}  # in German, where these are capitalised; its other endings are of adjectives
OF_NAMES = {
    **PLURALS,
    "ko": [
        (particle, "")
        for particle in (
            *("들", "들이", "들은", "들을", "들의", "들과", "들에"),
            *("이", "가", "은", "는", "을", "를", "의", "와", "과", "도", "만", "나", "이나", "로", "으로"),
            *("에", "에서", "에는", "에게", "하고", "인", "한"),
        )
    ],
    "ru": [
        *((ending, "") for ending in ("а", "у", "ом", "е", "ы", "и", "ов", "ам", "ами", "ах", "ей")),
        *((ending, "а") for ending in ("е", "ой", "у", "и", "ы", "ами", "ах")),
        *((ending, "ь") for ending in ("и", "я", "ю", "ем")),
        *((ending, "ый") for ending in ("ая", "ое", "ые", "ую", "ой", "ого", "ом", "ым")),
    ],
}
"""Endings of forms that the names lack, which are in the singular and the nominative; as ENDINGS."""
BETWEEN = ("", "e", "s", "n", "en", "es")  # the parts of a German compound
SHORTEST = 3  # letters of a part
LONGEST = 100  # letters of a compound: longer than any, as looking for its parts takes their square
OF_OTHERS = "[ãåæðõøþ\u0100-\u0151\u0154-\u024f]"
"""Letters that German, French and Spanish lack; œ they have."""


class WordTable:
    """What a language has for English words, of which several may have the same.

    Attributes:
        language: its code.
        shown: words of the language, or phrases, by English words.
    """

    def __init__(self, language: str, shown: Mapping[str, str]) -> None:
        self.language, self.shown = language, shown
        self._english: dict[str, list[str]] = {}  # by words with spaces between them
        self._nouns: set[str] = set()  # of German
        self._written: dict[str, str] = {}  # by what many type: without accents, or with ae for ä
        for english, own in shown.items():
            words = " ".join(words_in(own.lower()))
            self._english.setdefault(words, []).append(english)
            if language == "de" and own[0].isupper():
                self._nouns.add(words)
            for typed in (words.translate(SPELLED), folded(words)):
                self._written.setdefault(typed, own)
        self._verbs = {words for words, all in self._english.items() if any(map(_is_participle, all))}
        participles = [words for words in self._english if language == "fr" and words.endswith("é")]
        for words in participles:
            if any(self._infinitives(typed := folded(words))):
                self._written.pop(typed, None)  # "mange" is no "mangé"
        self._plurals = {
            words for words, all in self._english.items() if any(_has_no_singular(one, shown) for one in all)
        }
        self._longest = max((key.count(" ") + 1 for key in self._english), default=1)

    def english(self, word: str) -> list[str]:
        """Return the English words for a word, however it is typed, also in forms that the table lacks."""
        known, last = self._known(word.lower())
        return [*known, *last]

    def has(self, word: str) -> bool:
        """Return whether it has a word, or one that has no ending: no verb, nor a singular that it lacks."""
        word = word.lower()
        return not self._english.keys().isdisjoint(self._forms(word)) or bool(self._parts(word)[0])

    def named(self, word: str) -> list[str]:
        """Return the English words for what a word names: of a compound, its last part."""
        known, last = self._known(word.lower())
        return last or known

    def read(self, text: str) -> list[tuple[str, list[str]]]:
        """Return a text's words, of which phrases of the table are one, with the English ones for each."""
        words, found = words_in(text), []
        place = 0
        while place < len(words):
            for number in range(min(self._longest, len(words) - place), 0, -1):
                phrase = " ".join(words[place : place + number])
                if number == 1 or phrase.lower() in self._english or phrase.lower() in self._written:
                    break
            found.append((phrase, self.english(phrase)))
            place += number
        return found

    @property
    def words(self) -> set[str]:
        """All words and phrases of the language, in small letters."""
        return set(self._english)

    def written(self, word: str) -> str:
        """Return a word that was typed without its accents with these; others as they are."""
        first = next((form for form in self._forms(word.lower()) if form in self._english), "")
        own = self._written.get(word.lower(), word)
        return own if first == own.lower() else word

    def _forms(self, word: str) -> Iterator[str]:
        yield word
        for ending, instead in ENDINGS.get(self.language, []):
            base = word.removesuffix(ending) + instead
            if word.endswith(ending) and (base not in self._nouns or ending in OF_NOUNS):
                yield base
        yield self._accented(word)

    def _rarer_forms(self, word: str) -> Iterator[str]:
        """Yield those that a word may also be a form of: a plural whose singular it lacks, and verbs."""
        plurals = (self._accented(word + ending) for ending in OF_PLURALS.get(self.language, ()))
        yield from (noun for noun in plurals if noun in self._plurals)
        if word in (irregular := IRREGULAR.get(self.language, {})):
            yield irregular[word]
        yield from self._forms(word)
        yield from self._infinitives(word)
        umlauts = re.sub(_UMLAUTS, lambda found: UMLAUTS[found[0]], word) if self.language == "de" else word
        if umlauts != word:
            yield from self._rarer_forms(umlauts)

    def _infinitives(self, word: str) -> Iterator[str]:
        """Yield the verbs of the table that a word may be a form of."""
        for ending, instead in OF_VERBS.get(self.language, []):
            base = word.removesuffix(ending) + instead
            verbs = (base, folded(base)) if word.endswith(ending) else ()
            yield from (verb for verb in verbs if verb in self._verbs)

    def _accented(self, word: str) -> str:
        """Return a word in small letters with the accents that the table has for it."""
        return " ".join(words_in(self._written.get(word, word).lower()))

    def _known(self, word: str) -> tuple[list[str], list[str]]:
        """Return the English words for a word, or for both parts of a German compound, "Hundeleine"."""
        forms = chain([word], self._rarer_forms(word))
        known = next((self._english[form] for form in forms if form in self._english), [])
        return (known, []) if known else self._parts(word)

    def _parts(self, word: str) -> tuple[list[str], list[str]]:
        taken_apart = self.language == "de" and len(word) <= LONGEST
        ends = range(len(word) - SHORTEST, SHORTEST - 1, -1) if taken_apart else ()
        for end in ends:
            noun = self._accented(word[end:])
            last = self._english.get(noun) if noun in self._nouns else None
            for between in BETWEEN if last else ():
                first = self._english.get(self._accented(word[:end].removesuffix(between)))
                if word[:end].endswith(between) and end - len(between) >= SHORTEST and first and last:
                    return first, last
        return [], []


def _is_participle(english: str) -> bool:
    return english.endswith("ing")


def _has_no_singular(english: str, lexicon: Collection[str]) -> bool:
    """Return whether a word is a plural whose singular a lexicon lacks, or both: "grapes", "sheep"."""
    singulars = english[:-1], english[:-2], f"{english[:-3]}y"
    return english == "sheep" or (english.endswith("s") and not any(one in lexicon for one in singulars))


def word_tables() -> Mapping[str, WordTable]:
    """Return the tables by language; none if the package is not installed.

    ModelError: they cannot be read.
    """
    folder = installed()
    return {} if folder is None else read_tables(folder.with_name(TABLE))


def named(word: str) -> dict[str, list[str]]:
    """Return the English words for a word of languages without a table, with their codes; {}: there are none.

    ModelError: they cannot be read.
    """
    file = None if (folder := installed()) is None else folder.with_name(NAMES)
    line = line_of(file, word.lower()) if file is not None and file.is_file() else ""
    found = (one.split(" ") for one in line.split("\t")[1:])
    return {english: codes for english, *codes in found}


def named_in(word: str) -> dict[str, list[str]]:
    """Return the English words for a word by the codes of such languages, which have it or lack its ending.

    ModelError: they cannot be read.
    """
    found: defaultdict[str, list[str]] = defaultdict(list)
    for english, codes in named(word).items():
        for code in codes:
            found[code].append(english)
    for code, endings in OF_NAMES.items():
        for ending, instead in endings:
            if code not in found and word.endswith(ending) and word != ending:
                base = named(word.removesuffix(ending) + instead)
                if own := [english for english, codes in base.items() if code in codes]:
                    found[code] = own
    return dict(found)


def translated(words: Iterable[str], language: str) -> dict[str, str]:
    """Return those of some English words that a language has, with what they are in it."""
    table = word_tables().get(language) if language else None
    return {} if table is None else {word: table.shown[word] for word in words if word in table.shown}


def merged(weights: Mapping[str, float], translations: Mapping[str, str]) -> dict[str, float]:
    """Return weights by the words that are shown, heaviest first; the sum where one is shown for several."""
    if not translations:
        return dict(weights)
    sums: dict[str, float] = {}
    for word, weight in weights.items():
        own = translations.get(word, word)
        sums[own] = sums.get(own, 0.0) + weight
    return dict(sorted(sums.items(), key=lambda one: -one[1]))


def table_to_show(language: str) -> str:
    """Return the code of the table in which words are shown to whoever asks for a language; "": in English.

    Raises:
        MissingPackage: the language is not English, and the package is not installed.
        ConfigError: there is no table of it.
    """
    code, tables = language.partition("-")[0], word_tables()
    if code in ("", "en") or code in tables:
        return code.removeprefix("en")
    check_installed()
    raise ConfigError(f"words are shown in {', '.join(('en', *tables))}, and not in '{language}'")


def likely_table(text: str) -> str:
    """Return the language of the table that has a sentence's words, which is not English; "": none has.

    It is the language that has most of them, of `elsewhere`, the tables, `named`, and function words; of
    several that have as many, the one that has a table, if it is one alone. No other language has more of the
    function words. A text with letters that no such language has, other than Latin ones or as in "plaży", has
    none.
    """
    folder, tables = installed(), word_tables()
    votes: defaultdict[str, float] = defaultdict(float)
    functions: Counter[str] = Counter()
    # folded, as º is a letter, too
    if folder is None or not is_latin(folded(text)) or re.search(OF_OTHERS, text.lower()):
        return ""
    for word in words_in(text.lower()):
        have = {language for language, words in QUERY_LANGUAGES.items() if word in words}
        functions.update(have)
        if not have:
            found = elsewhere(folder, word)
            have = set(found.languages if found is not None else ())
        for language in have:
            votes[language] += 1 / len(have)
    unknown = set(words_in(text.lower()))
    for language, table in tables.items():
        known = (word for word, english in table.read(text) if english)
        content = [word for word in known if word.lower() not in QUERY_LANGUAGES[language]]
        votes[language] += sum(len(words_in(word)) for word in content) / 2
        unknown -= {one for word in content for one in words_in(word.lower())}
    for word in unknown:
        for language in {code for codes in named(word).values() for code in codes}:
            votes[language] += 1 / 2
    most = max(votes.values(), default=0)
    said = max((number for language, number in functions.items() if language != "en"), default=0)
    first = [code for code in tables if votes[code] == most > 0 and functions[code] == said]
    return first[0] if len(first) == 1 else ""


@cache
def read_tables(file: Path) -> dict[str, WordTable]:
    """Return the tables of a file by language; none if there is none; ModelError: it is damaged."""
    if not file.is_file():
        return {}
    try:
        head, *rows = (line.split("\t") for line in file.read_text(encoding="utf-8").splitlines())
        english, *columns = zip(*rows, strict=True)
        return {
            language: WordTable(
                language, {word: own for word, own in zip(english, column, strict=True) if own}
            )
            for language, column in zip(head[1:], columns, strict=True)
        }
    except (OSError, ValueError) as error:
        raise damaged(file.parent, error) from error
