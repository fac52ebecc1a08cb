"""The words that come with photos: in captions and keywords, in names of files and of folders, in the photo.

A search finds by them what no picture shows: "Anna", "italy 2019", "cc_00111.jpg", "exit 12" on a sign.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lexlip.queries.query_language import FIELDS, forms
from lexlip.words.function_words import FUNCTION_WORDS
from lexlip.words.plain_text import folded, with_named_emoji, words_in

MOST_PHRASES = 64  # of a query: somebody may paste a whole text

_QUOTED = re.compile(r'["“]([^"“”]*)["”]|(\S+)')
_OWNER = re.compile(r"(?<=\w)['’]s(?!\w)", re.IGNORECASE)
_PARTS = re.compile(r"\d+|[^\W\d_]+")
_UNSPACED = "[\u3040-\u30ff\u3400-\u9fff]"  # Japanese and Chinese: no spaces between words; slow to compile
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


Texts = Mapping[str, Sequence[Sequence[str]]]
"""The texts that come with a photo, by field, each as its words."""


@dataclass(frozen=True)
class Phrase:
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


def phrases(text: str) -> tuple[Phrase, ...]:
    """Return what of a query may stand in names and captions.

    Function words count only where nothing else was typed. What is in quotes is one phrase, and so is what
    has no space in it ("cc_00111.jpg", "t-shirt"), except for the folders of a path. Of "Anna's" Anna counts.
    The first 64 phrases count.
    """
    found: list[Phrase] = []
    for quoted, typed in _QUOTED.findall(text):
        if quoted:
            found.append(Phrase(tuple(split_words(quoted)), exact=True))
        else:
            found += [Phrase(tuple(split_words(part))) for part in _OWNER.sub("", typed).split("/")]
    found = [one for one in found if one.words]
    content = [one for one in found if one.exact or not FUNCTION_WORDS.issuperset(one.words)]
    return tuple(dict.fromkeys(content or found))[:MOST_PHRASES]


def exactly(words: Iterable[str]) -> list[Phrase]:
    """Return words as phrases that no other numbers of a noun match."""
    found = (Phrase(tuple(split_words(word)), exact=True) for word in words)
    return [one for one in found if one.words]


def texts_of(id: str, captions: Iterable[str], lines: Iterable[str]) -> Texts:
    """Return the texts that come with a photo.

    These are captions and keywords, the names of the file and its folders, and the lines of text in the
    photo, which are one text.
    """
    folder, _, name = id.rpartition("/")
    of_names = {"name": cut_words(name), "folder": cut_words(folder), "text": cut_words(" ".join(lines))}
    return {"caption": [*map(split_words, captions)], **of_names}


def phrases_in(texts: Texts, wanted: Iterable[Phrase]) -> list[str]:
    """Return which phrases the texts of a photo have, each with its first field: name:anna, name:"img 1"."""
    found = {one: next((name for name in FIELDS if one.is_in(texts[name])), None) for one in wanted}
    return [f"{name}:{one}" for one, name in found.items() if name is not None]


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
