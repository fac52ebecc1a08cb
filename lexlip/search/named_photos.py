"""Photos that people named: what words of names, captions and text add to the score by content."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from lexlip.retrieval.given_words import Phrase, phrases, phrases_in
from lexlip.words.plain_text import composed, decomposed, folded

if TYPE_CHECKING:
    from lexlip.retrieval.photo_table import PhotoTable

MOST_NAMED = 1_000  # photos that are found by the words that people gave them
# Both measured in docs/notes/2026-11-28-one-box.md.
LEAST_NAMED = 0.75  # of the words of a sentence; fewer add nothing, unless they are names
NAMED_POWER = 2  # of the share of the words
SMALLEST = 1e-6  # share, that rounding does not leave
MOST_FOLDERS = 32  # of a path
LONGEST_PATH = 4096  # letters of a path of which ends are looked for by their words: not of a pasted page
MOST_ALIKE = 100  # photos that have the words of a path's end, of which some have them in order
MOST_SLIPS = 8  # words of a query that may be misspelled; of a pasted text all may be unknown

_IS_FILE = re.compile(r"[/\\][^/\\]*\.\w{2,5}['\"]?\s*(?:[?#]|$)")


def named_shares(
    photos: PhotoTable,
    phrases: tuple[Phrase, ...],
    unknown: Collection[str],
    accented: Mapping[str, str] = {},
) -> dict[str, float]:
    """Return which share of a sentence's phrases people gave photos, by id, where it adds to their scores.

    A phrase counts by how rare it is. Few of them count only if the model does not know them, as they are
    names then, such as "Anna".

    Args:
        photos: their table.
        phrases: those of the sentence.
        unknown: words of the phrases that the model does not know.
        accented: words that count only as they were typed, with accents, by what they are without.
    """
    number, counts = photos.given_counts(phrases) if phrases else (0, [])
    if not any(counts):
        return {}
    rare = [math.log(1 + number / max(count, 0.5)) for count in counts]
    weights = [one / sum(rare) for one in rare]

    def given(weights: Sequence[float]) -> list[tuple[str, float]]:
        found = photos.given(phrases, weights, MOST_NAMED)
        return _as_typed(photos, found, phrases, weights, accented) if accented else found

    shares = {id: share for id, share in given(weights) if share >= LEAST_NAMED}
    names = {folded(word) for word in unknown}
    weights = [
        0.0 if names.isdisjoint(phrase.words) else weight
        for phrase, weight in zip(phrases, weights, strict=True)
    ]
    if any(weights):
        for id, share in given(weights):
            shares[id] = max(share, shares.get(id, 0.0))
    return shares


def _as_typed(
    photos: PhotoTable,
    found: Sequence[tuple[str, float]],
    phrases: Sequence[Phrase],
    weights: Sequence[float],
    accented: Mapping[str, str],
) -> list[tuple[str, float]]:
    """Return the shares of photos without those of words that they have with other accents."""
    shares = []
    both = [one for one in zip(phrases, weights, strict=True) if not accented.keys().isdisjoint(one[0].words)]
    for (id, share), photo in zip(found, photos.get([id for id, _ in found]), strict=True):
        if photo is not None:
            lines = (line.text for line in photo.text)
            text = composed(" ".join([id, *photo.captions, *photo.keywords, *lines])).casefold()
            share -= sum(
                weight
                for phrase, weight in both
                if any(accented.get(word, word) not in text for word in phrase.words)
                and phrases_in(photo.given, [phrase])
            )
        shares.append((id, share))
    return [(id, share) for id, share in shares if share > SMALLEST]


def id_of_path(photos: PhotoTable, text: str) -> str | None:
    """Return the id of the photo that a text is a path of, also with folders above those of the index."""
    return next(iter(_ids_of_path(photos, text)), None)


def phrases_of_path(photos: PhotoTable, text: str) -> tuple[Phrase, ...]:
    """Return the phrases of the longest end of a path that a photo has: often the file's name alone.

    (): the text is no path of a file, or no photo has them.
    """
    is_path = len(text) <= LONGEST_PATH and _IS_FILE.search(text)
    for end in _ends_of_path(text) if is_path else ():
        wanted = phrases(end)
        found = photos.given(wanted, [1 / len(wanted)] * len(wanted), MOST_ALIKE) if wanted else ()
        if any(share > 1 - SMALLEST for _, share in found):
            return wanted
    return ()


def _ids_of_path(photos: PhotoTable, text: str) -> list[str]:
    """Return the ids of photos that are ends of a path, the longest first."""
    ends = _ends_of_path(text)
    ids = [id for path in ends for id in dict.fromkeys((path, composed(path), decomposed(path))) if id]
    held = photos.held(ids) if ids else ()
    return [id for id in ids if id in held]


def _ends_of_path(text: str) -> list[str]:
    """Return the ends of a path, or of an address, of a file, the longest first; [] if a text is none."""
    typed = text.strip().strip("'\"")
    if typed.startswith(("http://", "https://", "file:")):
        from urllib.parse import unquote

        typed = unquote(typed if typed.startswith("file:") else re.split("[?#]", typed)[0])
    elif "/" not in typed:
        typed = typed.replace("\\", "/")  # of Windows
    if "/" not in typed or "." not in typed.rpartition("/")[2]:
        return []
    parts = typed.split("/")[-MOST_FOLDERS:]
    return ["/".join(parts[start:]) for start in range(len(parts))]


def id_of_file(photos: PhotoTable, path: str) -> str | None:
    """Return the id of the photo whose file is at a path, absolute or from this process's folder."""
    if "\0" in path:
        return None
    here = os.path.abspath(path)  # noqa: PTH100 (a Path does not take "..")
    found = photos.get(_ids_of_path(photos, here))
    return next((one.id for one in found if one is not None and _is_same(here, one.path)), None)


def _is_same(path: str, other: str) -> bool:
    """Return whether two paths lead to the same place, also through links to folders, and if it is gone."""
    return composed(os.path.realpath(path)) == composed(os.path.realpath(other))


def folder_at(photos: PhotoTable, typed: str, root: str) -> str | None:
    """Return the folder of the index that a path on the disk ends with; None if the text is no such path.

    The path of `root`, the folder that was indexed ("" is unknown), is "", where all photos are.
    """
    path = composed(typed.strip('"“”'))
    if not path.startswith("/") or "\0" in path:
        return None
    if root and _is_same(path, root):
        return ""
    known = {composed(one["folder"]) for one in photos.facets()["folders"]}
    parts = [part for part in path.split("/") if part]
    ends = ("/".join(parts[start:]) for start in range(len(parts)))
    return next((end for end in ends if end in known), None)


def respelled(
    photos: PhotoTable, wanted: tuple[Phrase, ...], unknown: Collection[str] | None = None
) -> tuple[Phrase, ...]:
    """Return phrases with long words that no photo has as the nearest that some have are spelled.

    Args:
        photos: their table.
        wanted: the phrases; those in quotes stay.
        unknown: words that may be misspelled; None is all. The first MOST_SLIPS are looked up.
    """
    words = [word for phrase in wanted if not phrase.exact for word in phrase.words]
    words = [word for word in words if unknown is None or word in unknown][:MOST_SLIPS]
    near = dict(zip(words, photos.spelled_like(words), strict=True)) if words else {}
    meant = {word: max(like, key=like.__getitem__) for word, like in near.items() if like}
    return tuple(
        phrase
        if phrase.exact or meant.keys().isdisjoint(phrase.words)
        else Phrase(tuple(meant.get(word, word) for word in phrase.words), typed=phrase.words)
        for phrase in wanted
    )
