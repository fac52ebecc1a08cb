"""Negatives that are nearly right: changed captions, captions of similar photos, and mixed photo tokens.

VLDeformer's paper takes parts of speech and antonyms from WordNet. Here a small table of antonyms is built
in, of words that captions of photos are made of. Every other content word counts as a noun, and is replaced
by a noun of another caption.

The antonyms are English only. In captions in other languages nouns alone are replaced, by words of captions
in the same language if the batch has any; the language is guessed from a caption's function words. Endings
and elisions are not corrected: "l'eau" may become "l'chien".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from lexlip.words.function_words import FUNCTION_WORDS, likely_language

SHARE = 0.5  # of the content words that is replaced
CACHED = 8192  # captions whose words are kept, as each meets all others of its batch
SIMILARITY = 10.0  # weight of two captions' similarity against chance, if negatives are hard

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


def compose(caption: str, others: Sequence[str], rng: np.random.Generator) -> str:
    """Return a caption with half of its content words replaced, at least one; itself if nothing can be.

    Nouns are replaced by those of `others`, captions of other photos: of those in its language, if any.
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
    drawn = sorted(rng.choice(len(changeable), number, replace=False).tolist(), reverse=True)
    for (start, end), word in (changeable[place] for place in drawn):
        new = antonyms.get(word) or nouns[int(rng.integers(len(nouns)))]
        caption = caption[:start] + new + caption[end:]
    return caption


def draw_other_captions(
    drawn: Sequence[Sequence[int]],
    captions_of: Sequence[Sequence[str]],
    hard: float,
    rng: np.random.Generator,
) -> list[str]:
    """Return for each drawn caption one of another photo: any, or for a share `hard` a similar one.

    A caption that was also written of the photo itself, word for word, is only given if the batch has no
    other. Each caption of the batch is given once, so that no caption by itself tells what is a pair:
    similarity alone would give short ones more often. `drawn` says which of `captions_of` each photo are in
    the batch.
    """
    captions = [captions_of[row][i] for row, chosen in enumerate(drawn) for i in chosen]
    owners = np.repeat(np.arange(len(drawn)), [len(chosen) for chosen in drawn])
    cost = rng.random((len(captions), len(captions)))
    is_hard = rng.random(len(captions)) < hard
    cost[is_hard] -= SIMILARITY * _similarity(captions)[is_hard]
    own = owners[:, None] == owners[None, :]
    of_photo = [set(map(str.casefold, captions)) for captions in captions_of]
    true = own | [[caption.casefold() in of_photo[owner] for caption in captions] for owner in owners]
    true = np.where(true.all(axis=1, keepdims=True), own, true)
    given = linear_sum_assignment(np.where(true, len(captions) * SIMILARITY * 2, cost))[1]
    for row in np.flatnonzero(true[np.arange(len(given)), given]):  # if most captions are of one photo
        given[row] = rng.choice(np.flatnonzero(~true[row]))
    return [captions[place] for place in given]


def mix_tokens(states: Tensor, prefix: int = 0) -> Tensor:
    """Return photo tokens [B, P, C], B > 1, half of them replaced by other photos' tokens in the same place.

    These are VLDeformer's hard negatives of photos; they are drawn by torch's generator. The first `prefix`
    tokens, such as [CLS], stay.
    """
    photos, tokens = states.shape[:2]
    lots = torch.rand(photos, tokens - prefix, device=states.device)
    replaced = F.pad(lots.argsort(dim=1) < (tokens - prefix) // 2, (prefix, 0))
    other = torch.randint(1, photos, (photos, tokens), device=states.device)
    other = (other + torch.arange(photos, device=states.device)[:, None]) % photos
    taken = states[other, torch.arange(tokens, device=states.device)]
    return torch.where(replaced[:, :, None], taken, states)


def _similarity(captions: Sequence[str]) -> np.ndarray:
    """Return the share of content words that each two captions have in common (Jaccard), [T, T]."""
    words = [{word for _, word in _content(caption)} for caption in captions]
    number = {word: column for column, word in enumerate(sorted(set().union(*words)))}
    held = np.zeros((len(captions), len(number)))
    for row, found in enumerate(words):
        held[row, [number[word] for word in found]] = 1
    shared = held @ held.T
    sizes = held.sum(axis=1)
    similarity: np.ndarray = shared / np.maximum(sizes[:, None] + sizes[None, :] - shared, 1)
    return similarity


@lru_cache(CACHED)
def _content(caption: str) -> tuple[tuple[tuple[int, int], str], ...]:
    """Return the content words in lower case, with their places."""
    words = [(match.span(), match[0].lower()) for match in re.finditer(r"[^\W\d_]+", caption)]
    return tuple((span, word) for span, word in words if word not in FUNCTION_WORDS and len(word) > 1)


_language = lru_cache(CACHED)(likely_language)
