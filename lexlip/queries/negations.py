"""Plain negations of English sentences: "no dog on the beach" leaves out dogs, as "-dog" does.

A photo's words say only what it shows, so "no dog" would find dogs. A negation that names a thing leaves that
out. It stays text where it says what is to be seen, or where leaving out would lose the photo of a caption:

- signs: "a no parking sign", "no smoking", "no entry", "no left turn";
- what people wear: to a photo of "a man with no shirt" belongs the word "shirt";
- what is a part of something else: "tracks with no trains on them", "a train yard with no trains";
- what names no thing: "no one", "no longer".

In quotation marks it always stays text.
"""

from __future__ import annotations

import re
from collections import Counter

from lexlip.words.function_words import FUNCTION_WORDS

_QUOTED = re.compile(r'["“]([^"“”]*)["”]')
_WORD = r"[^\W\d_]+"
_ARTICLE = r"(?:(?:an?|any|the)\s+)?"
_OR = rf"(?:\s*,)?\s+(?:or|nor|and(?=\s+(?:\w+s|people|men|women|children)\b))\s+{_ARTICLE}"
_COMMA = rf"\s*,\s*{_ARTICLE}"
_NEGATION = re.compile(
    r"(?:\b(?:(?:but|and)\s+)?with\s+|\b(?:but|and|there\s+(?:is|are))\s+|,\s*)?"  # goes with it
    rf"(?<![\w'’-])(?:no|without|not\s+any|but\s+not)\s+{_ARTICLE}"
    rf"(?P<words>{_WORD}(?:(?:{_COMMA}{_WORD})*{_OR}{_WORD})?)(?![\w'’-])",
    re.IGNORECASE,
)
_BETWEEN = re.compile(rf"{_OR}|{_COMMA}", re.IGNORECASE)
_NEXT = re.compile(r"\s*(\w*)")
_BACK = re.compile(r"(?:\s+\w+)?\s+(?:it|them|him|her)\b|\s+on\s*(?:$|[^\w\s])", re.IGNORECASE)

_NO_THING = frozenset("access admittance entrance entry evil exit longer vacancy way".split())
_THINGS_IN_ING = frozenset("awning building ceiling king painting railing ring string swing wing".split())
_WORN = frozenset(
    "bra cloth clothes clothing coat diaper dress jacket jean pant shirt shoe short sneaker sock sweater top"
    " trouser underwear".split()
)
_IRREGULAR = {"child": "children", "man": "men", "person": "people", "woman": "women"}
_OTHER_NUMBER = {**_IRREGULAR, **{plural: singular for singular, plural in _IRREGULAR.items()}}


def read_negations(text: str) -> tuple[str, dict[str, tuple[str, ...]]]:
    """Return a text without its negations, and these, as they were written, with what they leave out.

    The quotation marks that keep a negation as text are taken away. Of a text that only leaves words out, ""
    is left.
    """
    said = Counter(re.findall(r"[^\W_]+", text.lower()))
    negations: dict[str, tuple[str, ...]] = {}

    def read(found: re.Match[str]) -> str:
        words = tuple(word.lower() for word in _BETWEEN.split(found["words"]))
        if not all(_is_thing(word, said) for word in words) or not _ends(found.string[found.end() :]):
            return found[0]
        negations[found[0].strip(" ,")] = words
        return " "

    parts = _QUOTED.split(text)  # every second one was quoted
    for place, part in enumerate(parts):
        if place % 2 == 0:
            parts[place] = _NEGATION.sub(read, part)
        elif not _NEGATION.search(part):
            parts[place] = f'"{part}"'
    if not negations:
        return "".join(parts), {}
    kept = " ".join("".join(parts).split()).strip(" ,")
    content = set(re.findall(r"[^\W_]+", kept.lower())) - FUNCTION_WORDS
    return (kept if content else ""), negations


def forms(noun: str) -> tuple[str, ...]:
    """Return a noun as it is, and what its other number may be by the rules of English spelling."""
    if noun in _OTHER_NUMBER:
        return noun, _OTHER_NUMBER[noun]
    if re.search("(?:ch|sh|s|x|z)es$", noun):  # buses, horses
        return noun, noun[:-2], noun[:-1]
    if re.search("[^aeiou]ies$", noun):  # cities, ties
        return noun, f"{noun[:-3]}y", noun[:-1]
    if re.search("[^us]s$", noun):
        return noun, noun[:-1]
    if re.search("[^aeiou]y$", noun):
        return noun, f"{noun[:-1]}ies"
    return noun, f"{noun}es" if re.search("(?:ch|sh|s|x|z)$", noun) else f"{noun}s"


def _is_thing(word: str, said: Counter[str]) -> bool:
    """Return whether a word names a thing that photos may lack, and that the sentence names only once."""
    names = forms(word)
    if word in FUNCTION_WORDS or not _WORN.isdisjoint(names) or not _NO_THING.isdisjoint(names):
        return False
    if (word.endswith("ing") and word not in _THINGS_IN_ING) or said["sign"] or said["signs"]:
        return False
    return sum(said[name] for name in names) == 1


def _ends(rest: str) -> bool:
    """Return whether a noun phrase has ended, given the rest of the sentence."""
    following = _NEXT.match(rest)
    assert following is not None
    return following[1].lower() in FUNCTION_WORDS | {""} and not _BACK.match(rest)
