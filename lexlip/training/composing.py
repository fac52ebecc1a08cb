"""Captions that are nearly right: VLDeformer's hard negatives of texts.

The paper takes parts of speech and antonyms from WordNet. Here a small table of antonyms is built in, of
words that captions of photos are made of; every other content word counts as a noun, and is replaced by one
of another caption.

Antonyms are English only, so captions in other languages have nouns replaced alone, by words of captions in
the same language where the batch has any; a caption's language is guessed by its function words. Endings
and elisions are not mended: "l'eau" may become "l'chien".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from lexlip.function_words import FUNCTION_WORDS, likely_language

SHARE = 0.5  # of the content words that are changed
MEMORY = 8192  # captions whose words are kept: each meets all others of its batch

_PAIRS = """
adult child, asleep awake, back front, bad good, beautiful ugly, big small, black white, blond
brunette, blonde brunette, bright dark, catch throw, catches throws, catching throwing, clean dirty,
climb descend, climbing descending, climbs descends, closed open, clothed naked, cloudy sunny, cold
hot, cool warm, cry laugh, crying laughing, dry wet, empty full, fast slow, fat thin, first last,
flat hilly, happy sad, hard soft, heavy light, high low, huge tiny, indoors outdoors, large little,
left right, long short, loud quiet, narrow wide, old young, new old, older younger, pull push,
pulling pushing, pulls pushes, quickly slowly, rough smooth, run walk, running walking, runs
walks, sit stand, sits stands, sitting standing, smile frown, smiles frowns, smiling frowning,
straight curved, strong weak, tall short, thick thin
"""
ANTONYMS: dict[str, str] = {}
for _pair in _PAIRS.replace("\n", " ").split(","):
    _one, _other = _pair.split()
    ANTONYMS.setdefault(_one, _other)
    ANTONYMS.setdefault(_other, _one)


def compose(caption: str, others: Sequence[str], numbers: np.random.Generator) -> str:
    """A caption with half of its content words changed, one of them at least.

    Args:
        caption: to change.
        others: captions of other photos, whose nouns come in; those in the caption's language, if any are.
        numbers: what is drawn from.

    Returns:
        The caption; itself where nothing can be changed.
    """
    language = _language(caption)
    antonyms = ANTONYMS if language == "en" else {}
    others = [other for other in others if _language(other) == language] or others
    nouns = sorted({word for other in others for _, word in _content(other) if word not in antonyms})
    places = _content(caption)
    nouns = [noun for noun in nouns if noun not in {word for _, word in places}]
    changeable = [(span, word) for span, word in places if word in antonyms or nouns]
    if not changeable:
        return caption
    number = max(1, round(SHARE * len(changeable)))
    drawn = sorted(numbers.choice(len(changeable), number, replace=False).tolist(), reverse=True)
    for (start, end), word in (changeable[place] for place in drawn):
        new = antonyms.get(word) or nouns[int(numbers.integers(len(nouns)))]
        caption = caption[:start] + new + caption[end:]
    return caption


def content_words(caption: str) -> set[str]:
    """The words of a caption that name something, in lower case."""
    return {word for _, word in _content(caption)}


@lru_cache(MEMORY)
def _content(caption: str) -> tuple[tuple[tuple[int, int], str], ...]:
    """Content words in lower case, with where they are."""
    words = [(match.span(), match[0].lower()) for match in re.finditer(r"[^\W\d_]+", caption)]
    return tuple((span, word) for span, word in words if word not in FUNCTION_WORDS and len(word) > 1)


_language = lru_cache(MEMORY)(likely_language)
