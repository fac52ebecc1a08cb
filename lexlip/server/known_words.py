"""The words of an index: by their beginning, near in spelling, and those that tell what it is of."""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from lexlip.models.word_table import translated
from lexlip.queries.query_language import Query, nearest_words
from lexlip.retrieval.answer import key_of
from lexlip.search.hybrid import HybridStage
from lexlip.search.photo_search import PhotoSearch
from lexlip.search.stages.honest_end import DEPTH
from lexlip.search.stages.impact import ImpactStage
from lexlip.words.language_codes import language_of
from lexlip.words.plain_text import folded

COMMON = 0.05  # share of the photos that a telling word is in, at most
FEWEST = 2  # photos that it is in
TRIED = 12  # words for each that is wanted
SHOWN = 8  # photos by which two words are compared
LIKE = 0.4  # share of these from which on they tell the same

T = TypeVar("T")


class KnownWords:
    """Words of the newest state of an index; what is worked out is kept for that state."""

    def __init__(self, search: PhotoSearch) -> None:
        self._search = search
        self._lock = threading.Lock()
        self._kept: dict[Any, tuple[str, Any]] = {}

    def find(self, prefix: str, near: str, limit: int, language: str = "") -> list[dict[str, Any]]:
        """Return words that begin so, with the number of photos that hold them, the most frequent first.

        With `near`, those that are spelled most like it come first. In a language that has a table they are
        sought as they are shown in it.
        """
        counts = self._counts()
        if own := translated(counts, language_of(language.lower()).partition("-")[0]):
            return _find_shown(prefix, near, limit, counts, own)
        if near:
            begun = {word: count for word, count in counts.items() if word.startswith(prefix.lower())}
            found = nearest_words(near, begun, limit)
        else:
            words: list[str] = self._for_state("sorted", [], lambda stage: sorted(counts))
            begin = bisect_left(words, prefix.lower())
            end = bisect_left(words, prefix.lower() + "\U0010ffff")
            found = sorted(words[begin:end], key=lambda word: (-counts[word], word))[:limit]
        return [{"word": word, "photos": counts[word], "shown": word} for word in found]

    def telling(self, limit: int) -> list[dict[str, Any]]:
        """Return words that tell what a collection is of, each with its best photo, and how many fit it well.

        These are in many photos, but not everywhere, and heavy in their best ones. Of words that find the
        same photos, such as dog and dogs, there is one.
        """
        return self._for_state(("telling", limit), [], lambda stage: self._telling(stage, limit))

    def _telling(self, stage: ImpactStage, limit: int) -> list[dict[str, Any]]:
        counts, documents = self._counts(), stage.metadata.documents
        most = max(FEWEST, COMMON * documents)
        frequent = [word for word, count in counts.items() if FEWEST <= count <= most and len(word) > 2]
        frequent.sort(key=lambda word: (-counts[word], word))
        frequent = frequent[: TRIED * limit]
        if not frequent:
            return []
        found = stage.search([stage.encode(word) for word in frequent], SHOWN)
        best = dict(zip(frequent, found[0], strict=True))
        telling = {
            word: math.log(counts[word]) * float(sum(scores))
            for word, scores in zip(frequent, found[1], strict=True)
        }
        told: list[dict[str, Any]] = []
        seen: list[set[str]] = []
        keys: set[str] = set()
        for word in sorted(telling, key=lambda word: (-telling[word], word)):
            ids = best[word]
            matched = stage.matches(stage.encode(word), ids)
            shown = [key_of(id) for id, words in zip(ids, matched, strict=True) if word in words]
            photo = next((key for key in shown if key not in keys), None)
            if photo is None or any(len(other & set(ids)) > LIKE * len(ids) for other in seen):
                continue
            number = _fitting(stage, word, counts[word])
            if number < FEWEST:
                continue
            seen.append(set(ids))
            keys.add(photo)
            told.append({"word": word, "photos": number, "key": photo})
            if len(told) == limit:
                break
        return told

    def _counts(self) -> dict[str, int]:
        """Return all words that photos hold, with the number of these; none if the index has no words."""
        return self._for_state("counts", {}, ImpactStage.counts)

    def _for_state(self, name: Any, nothing: T, make: Callable[[ImpactStage], T]) -> T:
        """Return what was made under this name before, unless the index has a newer state.

        It is made of the index of words, which may be fused with another one; without words it is `nothing`.
        """
        with self._search.now() as (stage, _):
            state = str(stage.state)
            with self._lock:
                kept, made = self._kept.get(name, ("", nothing))
            if kept != state:
                words = stage.first if isinstance(stage, HybridStage) else stage
                made = make(words) if isinstance(words, ImpactStage) else nothing
                with self._lock:
                    self._kept[name] = state, made
        return made


def _find_shown(
    prefix: str, near: str, limit: int, counts: Mapping[str, int], own: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Do what `KnownWords.find` does for words that are shown as `own` says, without regard to accents."""
    words: dict[str, str] = {}  # of several that are shown alike, the most frequent one
    for word in sorted(counts, key=lambda word: (-counts[word], word)):
        words.setdefault(folded(own.get(word, word)), word)
    begun = {shown: counts[word] for shown, word in words.items() if shown.startswith(folded(prefix))}
    found = nearest_words(folded(near), begun, limit) if near else list(begun)[:limit]
    shown = [(words[one], own.get(words[one], words[one])) for one in found]
    return [{"word": word, "photos": counts[word], "shown": name} for word, name in shown]


def _fitting(stage: ImpactStage, word: str, holding: int) -> int:
    """Return how many photos fit a word well; those that hold it, if that is not known."""
    encoded, depth = stage.encode(word), DEPTH
    (ids,), (scores,) = stage.search([encoded], depth)
    well, _ = stage.ends(Query(word, word), encoded, ids, scores)
    if well is None:
        return holding
    while len(scores) == depth and scores[-1] >= well:
        depth *= 4
        _, (scores,) = stage.search([encoded], depth)
    return int(np.count_nonzero(scores >= well))
