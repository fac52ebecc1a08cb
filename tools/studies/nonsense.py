"""Queries that no photo answers, to measure where hits end (see honest_end.py)."""

from __future__ import annotations

import random
import re
import string
from pathlib import Path
from typing import Literal, NamedTuple

from lexlip.queries.text_queries import TextQueries
from lexlip.words.function_words import BY_LANGUAGE
from lexlip.words.vocabulary import entries_as_words, is_content_word

ABSENT = Path(__file__).with_name("absent_things.tsv")
NUMBER = 60  # of each kind

Half = Literal["fit", "test"]

KINDS = {
    "letters": "random letters",
    "function words": "English function words",
    "rare words": "words that the vocabulary does not have",
    "thrown together": "four to six random words of the vocabulary",
    "absent things": "sentences about things that are not in the photos",
}


class Nonsense(NamedTuple):
    """A query, and its kind: one of KINDS."""

    kind: str
    text: str


def nonsense(queries: TextQueries, half: Half, number: int = NUMBER) -> list[Nonsense]:
    """Return queries of each kind, the same at every call; no rare words, if the vocabulary has all words.

    Args:
        queries: of the model, whose vocabulary makes some of them.
        half: "fit" or "test": no sentence about absent things is in both.
        number: of each kind; of the sentences about absent things, all of the half are taken.
    """
    rng = random.Random(half)
    vocabulary = queries.vocabulary.words
    whole = set(vocabulary)
    rare = sorted(
        word
        for word in entries_as_words(queries.tokenizer.core)
        if re.fullmatch(r"[^\W\d_]{4,}", word) and is_content_word(word) and word not in whole
    )
    function_words = sorted(BY_LANGUAGE["en"])

    def letters(fewest: int, most: int) -> str:
        return "".join(rng.choice(string.ascii_lowercase) for _ in range(rng.randint(fewest, most)))

    def some(words: list[str] | tuple[str, ...], fewest: int, most: int) -> str:
        return " ".join(rng.choice(words) for _ in range(rng.randint(fewest, most)))

    made = {
        "letters": [" ".join(letters(3, 8) for _ in range(rng.randint(1, 3))) for _ in range(number)],
        "function words": [some(function_words, 1, 4) for _ in range(number)],
        "rare words": [some(rare, 1, 3) for _ in range(number)] if rare else [],
        "thrown together": [some(vocabulary, 4, 6) for _ in range(number)],
        "absent things": absent_things(half),
    }
    return [Nonsense(kind, text) for kind, texts in made.items() for text in texts]


def absent_things(half: Half) -> list[str]:
    """Return the sentences about things that hardly any collection of everyday photos has, of one half."""
    lines = ABSENT.read_text(encoding="utf-8").splitlines()
    return [text for part, text in (line.split("\t") for line in lines) if part == half]
