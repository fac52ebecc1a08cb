"""The words that come with photos: in captions, keywords and names, in the photo, and those of its day.

A search finds by them what no picture shows: "Anna", "italy 2019", "cc_00111.jpg", "exit 12" on a sign.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from lexlip.queries.query_language import forms
from lexlip.words.function_words import FUNCTION_WORDS
from lexlip.words.plain_text import folded, with_named_emoji, words_in

MOST_PHRASES = 64  # of a query: somebody may paste a whole text
TAKEN = "taken"  # the day: a field that a hit names, and no query

_MONTHS = tuple(
    "january february march april may june july august september october november december".split()
)
_MONTH, _NUMBER = rf"(?:{'|'.join(f'{one}|{one[:3]}' for one in _MONTHS)})", r"\d\d?(?:st|nd|rd|th)?"
_WRITTEN = rf"(?:{_NUMBER}\s+{_MONTH}|{_MONTH}\s+{_NUMBER}),?\s+\d{{4}}(?![^\s?!.,;])"  # "4 July 2019"
_QUOTED = r'["“]([^"“”]*)["”]|(\S+)'
_QUOTED_OR_DATE = rf'(?i)["“]([^"“”]*)["”]|({_WRITTEN}|\S+)'
_OWNER = re.compile(r"(?<=\w)['’]s(?!\w)", re.IGNORECASE)
_PARTS = re.compile(r"\d+|[^\W\d_]+")
_UNSPACED = "[\u3040-\u30ff\u3400-\u9fff]"  # Japanese and Chinese: no spaces between words; slow to compile
_SLASHED = re.compile(r"\d\d?/\d\d?/\d{4}", re.ASCII)  # 7/4/2019 is a date, 2019/07/04 may be folders
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


Texts = Mapping[str, Sequence[Sequence[str]]]
"""The texts that come with a photo, by field, each as its words."""


class Phrase(NamedTuple):
    """Words that must stand beside each other in one text; one word is the rule.

    Attributes:
        words: as `lexlip.words.plain_text.folded` has them; of Japanese and Chinese each letter is one.
        exact: was in quotes, so other numbers of a noun do not count.
        typed: the words as they were typed, if these are others.
    """

    words: tuple[str, ...]
    exact: bool = False
    typed: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return it as a query has it behind a field."""
        text = " ".join(self.words)
        if not text.isascii():
            text = re.sub(rf"(?<={_UNSPACED}) (?={_UNSPACED})", "", text)
        return f'"{text}"' if " " in text else text

    def spellings(self) -> list[tuple[str, ...]]:
        """Return for each word how it may be spelled."""
        return [(word,) if self.exact else forms(word) for word in self.words]

    def is_in(self, texts: Iterable[Sequence[str]]) -> bool:
        """Return whether one of some texts, each given by its words, has the words beside each other."""
        spellings = self.spellings()
        size = len(spellings)
        return any(
            all(text[start + place] in ways for place, ways in enumerate(spellings))
            for text in texts
            for start in range(len(text) - size + 1)
        )

    @property
    def dates(self) -> bool:
        """Whether it may say when a photo was taken: "12:30" and "3 people" have no word for it."""
        return any(len(word) > 2 for word in self.words)

    def fields_in(self, texts: Texts) -> list[str]:
        """Return the fields of a photo in which it stands, given their texts."""
        return [name for name in texts if (name != TAKEN or self.dates) and self.is_in(texts[name])]


def phrases(text: str) -> tuple[Phrase, ...]:
    """Return what of a query may stand in names and captions.

    Function words count only where nothing else was typed. What is in quotes is one phrase, and so is what
    has no space in it ("cc_00111.jpg", "t-shirt"), except for the folders of a path; and a day: "4 July
    2019". Of "Anna's" Anna counts. The first 64 phrases count.
    """
    found: list[Phrase] = []
    dated = any(map(str.isdecimal, text))
    for quoted, typed in re.findall(_QUOTED_OR_DATE if dated else _QUOTED, text):
        if quoted:
            found.append(Phrase(tuple(split_words(quoted)), exact=True))
        else:
            typed = _OWNER.sub("", typed)
            parts = [typed] if _SLASHED.fullmatch(typed) else typed.split("/")
            found += [Phrase(tuple(split_words(part))) for part in parts]
    found = [one for one in found if one.words]
    may = {("may",)} if any(word.isdecimal() for one in found for word in one.words) else set()  # "may 2019"
    content = [
        one for one in found if one.exact or one.words in may or not FUNCTION_WORDS.issuperset(one.words)
    ]
    return tuple(dict.fromkeys(content or found))[:MOST_PHRASES]


def exactly(words: Iterable[str]) -> list[Phrase]:
    """Return words as phrases that no other numbers of a noun match."""
    found = (Phrase(tuple(split_words(word)), exact=True) for word in words)
    return [one for one in found if one.words]


def texts_of(id: str, captions: Iterable[str], lines: Iterable[str], date: str | None = None) -> Texts:
    """Return the texts that come with a photo.

    These are captions and keywords, the names of the file and its folders, the lines of text in the photo,
    which are one text, and of a date ("2019-07-04T12:30:00") the ways in which people write it.
    """
    folder, _, name = id.rpartition("/")
    of_names = {"name": cut_words(name), "folder": cut_words(folder), "text": cut_words(" ".join(lines))}
    return {
        "caption": [*map(split_words, captions)],
        **of_names,
        **({TAKEN: date_words(date)} if date else {}),
    }


def phrases_in(texts: Texts, wanted: Iterable[Phrase]) -> list[str]:
    """Return which phrases the texts of a photo have, each with its first field: name:anna, name:"img 1"."""
    found = {one: one.fields_in(texts) for one in wanted}
    return [f"{names[0]}:{one}" for one, names in found.items() if names]


def date_words(date: str) -> list[list[str]]:
    """Return the ways in which people write a day, given as ISO 8601 begins, or "July 2019", as words."""
    found = _DAY.match(date)
    return _ways_of(*found.groups()) if found and 0 < int(found[2]) < 13 else []


@lru_cache(maxsize=4096)
def _ways_of(year: str, month: str, day: str) -> list[list[str]]:
    name, number = _MONTHS[int(month) - 1], str(int(day))
    short = name[:3]
    ending = "th" if day in ("11", "12", "13") else {"1": "st", "2": "nd", "3": "rd"}.get(number[-1], "th")
    ways = [[name, year], [short, year]]
    for one, other in ((month, day), (str(int(month)), number)):
        ways += [[year, one, other], [other, one, year], [one, other, year]]
    for written in (number, number + ending):
        ways += [[of, written, year] for of in (name, short)] + [[written, of, year] for of in (name, short)]
    return ways


def cut_words(text: str) -> list[list[str]]:
    """Return the words of a text: as they stand, and cut between letters, digits and humps: SnowMan12."""
    text = with_named_emoji(text)
    texts = [split_words(text)]
    if (cut := split_words(" ".join(_PARTS.findall(_HUMP.sub(" ", text))))) != texts[0]:
        texts.append(cut)
    return texts


def split_words(text: str) -> list[str]:
    """Return the words of a text, as `Phrase` has them; emoji are those of their names in Unicode."""
    text = folded(with_named_emoji(text))
    return words_in(text if text.isascii() else re.sub(_UNSPACED, r" \g<0> ", text))
