"""Write what things are called in many languages, for single words: languages/lexlip_languages/names.tsv.gz.

    npm pack cldr-annotations-full && tar xf cldr-annotations-full-*.tgz
    python -m tools.language_names ANNOTATIONS languages/words.txt.gz languages/lexlip_languages/names.tsv.gz

Unicode's CLDR names each emoji and gives keywords for it, in English and in other languages. A word names
what an English word of the lexicon does if one is the name of an emoji and so is the other; or if the two
are keywords of nearly the same emoji, LEAST (Dice's coefficient) and FEWEST or more. Of German, French and
Spanish words that the package's table has, 94 to 97 % are right of the names, and 80 to 84 % of the keywords;
most others are near: "lire" is *book*.

Left out are languages with a table, and English words. Words with accents also stand without them.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

from lexlip.models.word_table import read_tables
from lexlip.words.plain_text import folded, words_in

LEXICON = Path(__file__).parents[1] / "lexlip" / "weights" / "mini" / "vocabulary.txt"
TABLE = Path(__file__).parents[1] / "languages" / "lexlip_languages" / "translations.tsv"
LEAST, FEWEST = 0.6, 2
SHORTEST = 3  # letters of a word without accents; one that lost them has more
PLAIN = str.maketrans("ıłøđ", "ilod")
"""Letters that are no letter with an accent to Unicode, and are typed as one."""

Emoji = Mapping[str, Mapping[str, list[str]]]


def read(folder: Path) -> Emoji:
    """Return what a language calls each emoji: "tts", its name, and "default", keywords."""
    content = json.loads((folder / "annotations.json").read_text(encoding="utf-8"))
    emoji: Emoji = content["annotations"].get("annotations", {})
    return emoji


def single(words: list[str]) -> set[str]:
    """Return those that are one word, in small letters."""
    return {word.lower() for word in words if words_in(word) == [word]}


def keywords(emoji: Emoji) -> dict[str, set[str]]:
    """Return the emoji of each word."""
    found: dict[str, set[str]] = defaultdict(set)
    for sign, texts in emoji.items():
        for word in single([*texts.get("tts", []), *texts.get("default", [])]):
            found[word].add(sign)
    return found


def align(english: Emoji, own: Emoji, lexicon: set[str]) -> dict[str, str]:
    """Return the word of the lexicon for each word of a language that has one."""
    signs = {word: where & own.keys() for word, where in keywords(english).items() if word in lexicon}
    there: dict[str, list[str]] = defaultdict(list)
    for word, where in signs.items():
        for sign in where:
            there[sign].append(word)
    found = {}
    for word, where in keywords(own).items():
        counts = Counter(one for sign in where for one in there[sign])
        dice = {one: 2 * number / (len(where) + len(signs[one])) for one, number in counts.items()}
        best = [one for one in dice if dice[one] == max(dice.values())]
        if len(best) == 1 and dice[best[0]] >= LEAST and counts[best[0]] >= FEWEST:
            found[word] = best[0]
    for sign in english.keys() & own.keys():
        names = [single(emoji[sign].get("tts", [])) for emoji in (english, own)]
        if all(names) and names[0] <= lexicon:
            found[names[1].pop()] = names[0].pop()
    return found


def main(annotations: Path, words: Path, file: Path) -> None:
    """Write the names: a line for each word, with English words, and behind each the languages."""
    lexicon = set(LEXICON.read_text(encoding="utf-8").split())
    listed = gzip.decompress(words.read_bytes()).decode().splitlines()
    known = lexicon | {line.partition("\t")[0][1:] for line in listed if line.startswith("=")}
    english, tables = read(annotations / "en"), read_tables(TABLE)
    names: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for folder in sorted(annotations.iterdir()):
        code, _, script = folder.name.partition("-")
        if code not in ("en", "und", *tables) and script in ("", "Hant"):
            for word, one in sorted(align(english, read(folder), lexicon).items()):
                names[word][one].add(code)
    spelled = set(names) | {line.partition("\t")[0] for line in listed}
    for word, own in [*names.items()]:
        plain = folded(word).translate(PLAIN)
        if plain not in spelled and not (plain.isascii() and len(plain) <= SHORTEST):
            for one, codes in own.items():
                names[plain][one] |= codes
    lines = [
        "\t".join([word, *(" ".join([one, *sorted(codes)]) for one, codes in sorted(own.items()))])
        for word, own in sorted(names.items())
        if word not in known and not (word.isascii() and len(word) < SHORTEST)
    ]
    file.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0))
    print(f"{len(lines):,} words, {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
