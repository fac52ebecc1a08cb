"""Words that are forms of one another: they are shown together."""

from __future__ import annotations

from collections.abc import Iterable


def forms_together(words: Iterable[str]) -> list[list[str]]:
    """Return words in groups with one stem (Porter's English one), each where its first word is.

    "sitting", "dog", "sits" gives ["sitting", "sits"] and ["dog"]. Forms with other letters ("men" of "man")
    stay apart. Words of other languages are together only if these rules give them one stem.
    """
    from snowballstemmer import EnglishStemmer  # not in a lean installation, which shows no photo's words

    stem = EnglishStemmer().stemWord
    groups: dict[str, list[str]] = {}
    for word in words:
        groups.setdefault(stem(word), []).append(word)
    return list(groups.values())
