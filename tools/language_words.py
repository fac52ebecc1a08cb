"""Write words of other languages, which tell a foreign word from an English one: languages/words.txt.gz.

    npm pack cldr-annotations-full && tar xf cldr-annotations-full-*.tgz
    apt-get install wamerican wamerican-huge wbritish-huge wordnet-base
    python -m tools.language_words ANNOTATIONS /usr/share/dict /usr/share/wordnet languages/words.txt.gz

Unicode's CLDR names each emoji in many languages, and gives keywords for it: "Hund" and "chien" for a
dog. ANNOTATIONS is its folder package/annotations. The package's table of words adds its own. Words that an
English dictionary (SCOWL, free to use) or CLDR's English keywords have are marked with "=": a query of one is
English; so are those that the table would take for forms of its words: "cigarettes". Words of the table that
the dictionary has as names alone, "Baum", are not, but first names (FIRST_NAMES) are. Words of larger
dictionaries and of WordNet follow that no other language has, without a language: "=kombucha". Words of the
packaged model's lexicon are left out, except FALSE_FRIENDS.

Phrases that English uses and that hold foreign words, "grand prix" and "los angeles", are WordNet's, and
MORE_PHRASES. They stand without accents, with "=", and the languages with a table that have all of their
words, if English lacks one. Two words that a table knows are a query in its language, WordNet or not.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path

from lexlip.models.language_model import LONGEST
from lexlip.models.word_table import WordTable, read_tables
from lexlip.words.function_words import QUERY_LANGUAGES
from lexlip.words.plain_text import folded, words_in

WORD = re.compile("[a-zA-Z\u00c0-\u024f\u1e00-\u1eff]{3,}")  # in Latin letters; shorter ones mean much else
DICTIONARY = "american-english"
LARGER = ("american-english-huge", "british-english-huge")
PLURALS = {"de": ("e", "n", "en", "er", "s"), "fr": ("s", "x"), "es": ("s", "es"), "pt": ("s",)}
"""Endings of most nouns in the plural; whatever they make that English lacks counts as a word."""
FALSE_FRIENDS = {
    "de": "bad bitten boot brand brief bunt gift grab held hose hut kind made mist rock see tee tier wand",
    "fr": "chair chat coin four fort lit main pain pet pile pin robe son vie vert",
    "es": "collar pan pie red sale slip",
    "it": "camera cane case fame male pace pane sale",
    "nl": "brand brief held kind rock",
}
"""Words of the lexicon that are common in other languages and mean something else there."""
MORE_PHRASES = """
a cappella, al fresco, al pastor, art deco, art nouveau, bain marie, ballet en pointe, banh mi, boeuf
bourguignon, bon appetit, bossa nova, c'est la vie, camp nou, chili con queso, chow mein, cote d'azur, creme
brulee, cul de sac, dia de los muertos, dia de muertos, dolce vita, dulce de leche, el dorado, feliz
navidad, filet mignon, film noir, grand prix, haricots verts, hasta la vista, huevos rancheros, je ne sais
quoi, la bamba, la cucaracha, la dolce vita, la rambla, la scala, la traviata, las vegas, le mans, los
alamos, los angeles, los lobos, lucha libre, maitre d, mi casa su casa, moules frites, no bueno, notre dame,
numero uno, osso buco, pain au chocolat, palo alto, panna cotta, park guell, pasta e fagioli, petit four,
petits fours, pico de gallo, pinot noir, pomme frites, sacre coeur, sang froid, sagrada familia, salade
nicoise, soup du jour, spaghetti alla carbonara, steak frites, tapas bar, tres leches, villa d'este, vincent
van gogh
"""
"""Phrases that WordNet lacks, or that could be a query in another language, too: "film noir"."""

FIRST_NAMES = frozenset("bart brett cara diana lana magdalena marco marcos pierre".split())
"""Words of a table that English knows best as names of people."""

ARTICLES = frozenset("das der die el il l la las le les lo los".split())
"""With one of these before it, a word of a table is a query in its language: "la tour"."""

LEXICON = Path(__file__).parents[1] / "lexlip" / "weights" / "mini" / "vocabulary.txt"
TABLE = Path(__file__).parents[1] / "languages" / "lexlip_languages" / "translations.tsv"
NAMED = 3  # languages of a word
LANGUAGES = "de fr es it pt nl pl cs sv da no fi tr vi id ro hu hr sk sl lt lv et ca".split()
"""Those in Latin letters whose words count, in the order in which they are named: the more, the more English
words that are mistyped count as foreign."""


def read(folder: Path) -> set[str]:
    """Return the words of a language, in small letters."""
    content = json.loads((folder / "annotations.json").read_text(encoding="utf-8"))
    texts = content["annotations"].get("annotations", {}).values()
    each = (word for text in texts for word in (*text.get("default", ()), *text.get("tts", ())))
    return {word.lower() for word in each if WORD.fullmatch(word)}


def read_entries(wordnet: Path) -> list[str]:
    """Return the entries of WordNet, also in irregular plurals."""
    kinds = ("adj", "adv", "noun", "verb")
    files = [wordnet / name for kind in kinds for name in (f"index.{kind}", f"{kind}.exc")]
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [line.partition(" ")[0].replace("_", " ") for line in lines]


def phrases_of(entries: list[str]) -> set[str]:
    """Return those entries that are several words."""
    split = [words_in(folded(entry)) for entry in entries]
    return {
        " ".join(words)
        for words in split
        if len(words) <= LONGEST and sum(len(word) > 1 for word in words) > 1
    }


def read_dictionary(file: Path) -> set[str]:
    """Return the words of a dictionary with a word in each line, in small letters."""
    return {line.strip().lower() for line in file.read_text(encoding="utf-8").splitlines()}


def read_names(file: Path) -> set[str]:
    """Return those words of a dictionary that it has with a capital alone, in small letters."""
    lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    return {line.lower() for line in lines if line[:1].isupper()}.difference(lines)


def _is_query(table: WordTable, first: str, last: str) -> bool:
    """Return whether two words are a query in the table's language: "la tour", "jeune fille"."""
    return bool(table.english(last) and (first in ARTICLES or table.english(first)))


def main(annotations: Path, dictionaries: Path, wordnet: Path, file: Path) -> None:
    """Write the words."""
    lexicon = set(LEXICON.read_text(encoding="utf-8").split())
    tables = read_tables(TABLE)
    of_emoji = read(annotations / "en")
    surnames = read_names(dictionaries / DICTIONARY) - FIRST_NAMES - of_emoji
    surnames &= set().union(*(table.words for table in tables.values()))
    english = of_emoji | read_dictionary(dictionaries / DICTIONARY)
    languages: dict[str, list[str]] = {}
    for code in LANGUAGES:
        friends = set(FALSE_FRIENDS.get(code, "").split()) & lexicon
        words = read(annotations / code)
        plurals = {word + ending for word in words - english - lexicon for ending in PLURALS.get(code, ())}
        if code in tables:
            words |= {word for word in tables[code].words if WORD.fullmatch(word)}
            words |= {word for word in english if WORD.fullmatch(word) and tables[code].english(word)}
        for word in ((words | (plurals - english)) - lexicon) | friends:
            languages.setdefault(word, []).append(code)
    english -= surnames
    have = {code: {folded(word) for word, codes in languages.items() if code in codes} for code in LANGUAGES}
    known = english | lexicon
    strange = {folded(word) for word in languages} - known
    for code, functions in QUERY_LANGUAGES.items():
        have.setdefault(code, set()).update(map(folded, functions))
        strange |= {folded(word) for word in functions} - QUERY_LANGUAGES["en"]
    of_tables = {folded(phrase) for table in tables.values() for phrase in table.words}
    entries = read_entries(wordnet)
    phrases = {
        phrase
        for phrase in phrases_of(entries) - of_tables
        if not strange.isdisjoint(parts := phrase.split())
        and not (len(parts) == 2 and any(_is_query(table, *parts) for table in tables.values()))
    }
    for phrase in phrases | {" ".join(words_in(one)) for one in MORE_PHRASES.split(",")}:
        parts = phrase.split()
        of_english = known.issuperset(parts)
        languages[phrase] = [
            code
            for code, table in tables.items()
            if not of_english and all(part in have[code] or table.english(part) for part in parts)
        ]
        english.add(phrase)
    larger = set(entries).union(*(read_dictionary(dictionaries / name) for name in LARGER))
    for word in (english | larger) - lexicon:
        if WORD.fullmatch(word) and word not in languages:
            languages[word] = []
            english.add(word)
    lines = [
        f"{'=' if word in english or word in lexicon else ''}{word}\t{' '.join(codes[:NAMED])}\n"
        for word, codes in sorted(languages.items())
    ]
    file.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
    print(f"{len(lines):,} words, {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
