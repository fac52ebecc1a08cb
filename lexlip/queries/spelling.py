"""Words that somebody may have meant who mistyped one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

SWAP = 0.9  # edits that two neighbouring letters count which changed places: the likeliest slip
LETTERS = 3  # of a word for each edit that it may have; one edit is always allowed
SHORTEST = 3  # a shorter word resembles too many


def nearest_words(word: str, counts: Mapping[str, int], number: int) -> list[str]:
    """Return the known words, at most `number`, that are spelled most like one, in any case.

    Of equals those are first that are in most photos, which `counts` says.
    """
    word = word.lower()
    if len(word) < SHORTEST or not counts:
        return []
    known = list(counts)
    edits = edit_distances(word, known)
    near = np.flatnonzero(edits <= max(1, len(word) // LETTERS))
    order = sorted(near.tolist(), key=lambda n: (edits[n], -counts[known[n]], known[n]))
    return [known[n] for n in order[:number]]


def edit_distances(word: str, others: list[str]) -> NDArray[np.float64]:
    """Return how many letters to put in, leave out, replace or swap to turn a word into each of the others.

    This is the Damerau-Levenshtein distance in which no letter is edited twice (optimal string alignment),
    but for the `SWAP`; it is worked out for all words at once.
    """
    lengths = np.array([len(other) for other in others])
    longest = int(lengths.max())
    letters = np.array(others, f"U{max(longest, 1)}").view(np.uint32).reshape(len(others), -1).T
    typed = [ord(letter) for letter in word]
    before: NDArray[np.float64] = np.empty(0)
    row = np.repeat(np.arange(longest + 1.0)[:, None], len(others), axis=1)  # by beginnings of the others
    for i, letter in enumerate(typed):
        last, row = row, np.empty_like(row)
        row[0] = i + 1
        for j in range(longest):
            replaced = last[j] + (letters[j] != letter)
            row[j + 1] = np.minimum(replaced, np.minimum(last[j + 1], row[j]) + 1)
            if i and j:
                swapped = (letters[j] == typed[i - 1]) & (letters[j - 1] == letter)
                row[j + 1] = np.where(swapped, np.minimum(row[j + 1], before[j - 1] + SWAP), row[j + 1])
        before = last
    return row[lengths, np.arange(len(others))]
