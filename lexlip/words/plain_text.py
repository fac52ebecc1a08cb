"""Texts for people: names of strangers as a terminal and UTF-8 can take them, and numbers of things."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache

from lexlip.errors import DataError

_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # controls, formats, halves of characters, ends of lines
_FIRST_MARK = "\u0300"  # no letter before it has a mark beside it
# Expressions that few texts need are texts in all modules: re compiles them once they are used.
_ACCENTS = "[\u0300-\u036f]"
_JOINERS = "\u200c\u200d"  # of letters and of emoji
_STEERING = "[\u00ad\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]"  # direction, soft hyphens
_STRAIGHT = str.maketrans("‘’", "''")
_WIDE = "[\uff01-\uff5e]"
_EMOJI = (
    "[\u2600-\u27bf\u2b50\U0001f300-\U0001f3fa\U0001f400-\U0001faff][\ufe0f\u200d♀♂\U0001f3fb-\U0001f3ff]*"
)
_NO_PART = "^(?:heavy |black |white )+| face$| without .*"  # of what an emoji shows


def readable(text: str) -> str:
    r"""Return a text on one line for a terminal; what is not to be seen stands as \x1b or \u202e.

    A name may hold what moves the cursor, colours the screen, or turns the direction of writing.
    """
    return text if text.isprintable() else "".join(map(_seen, text))


def whole(text: str) -> str:
    """Return a text with "?" in place of halves of characters (lone surrogates), which UTF-8 cannot hold."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def given_texts(texts: str | Iterable[str]) -> list[str]:
    """Return the texts that a program gives, a single one too; DataError: one is none, or is not Unicode."""
    given = list(texts) if isinstance(texts, Iterable) and not isinstance(texts, str | bytes) else [texts]
    for number, text in enumerate(given, 1):
        if not isinstance(text, str):
            raise DataError(f"texts are strings, or one, and text {number} is {type(text).__name__}")
        if whole(text) != text:
            raise DataError(f"text {number} holds half a character: write it again")
    return given


def composed(text: str) -> str:
    """Return a name as names are compared: in Unicode's NFC; some systems decompose letters with accents."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def decomposed(text: str) -> str:
    """Return a name as macOS may have written it: in Unicode's NFD."""
    return text if text.isascii() else unicodedata.normalize("NFD", text)


def folded(text: str) -> str:
    """Return a text as names are looked for: in small letters, without accents."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", re.sub(_ACCENTS, "", unicodedata.normalize("NFKD", text.casefold())))


def spelled(text: str) -> str:
    """Return a text as it is read: `tidied`, and with words for emoji, their names in Unicode."""
    return text if text.isascii() else re.sub(_EMOJI, _marked_name, tidied(text))


def tidied(text: str) -> str:
    """Return a text in Unicode's NFC, without marks that only steer how it is written.

    Full-width letters are plain ones, and apostrophes are straight, as in captions; phones write curly ones.
    """
    if text.isascii():
        return text
    text = composed(re.sub(_STEERING, "", text)).translate(_STRAIGHT)
    return re.sub(_WIDE, lambda found: chr(ord(found[0]) - 0xFEE0), text)


def with_named_emoji(text: str) -> str:
    """Return a text with the names of emoji in Unicode in their place, with spaces around them."""
    return text if text.isascii() else re.sub(_EMOJI, lambda found: f" {_name(found)} ", text)


def _name(emoji: re.Match[str]) -> str:
    return re.sub(_NO_PART, "", unicodedata.name(emoji[0][0], "").lower())


def _marked_name(found: re.Match[str]) -> str:
    """Return the name of an emoji of a query, beside which may be marks."""
    name = _name(found)
    before, after = found.string[: found.start()][-1:], found.string[found.end() :][:1]
    if before in ("+", "-") or after == "^":  # a mark takes one word
        name = name.partition(" with ")[0].rpartition(" ")[2]
    return f"{' ' if before.isalnum() else ''}{name}{'' if after in ('', '^', ' ') else ' '}"


def words_after(text: str, offsets: Iterable[tuple[int, int]]) -> str:
    """Return the words of a text that do not end by its last token, given where the tokens are."""
    end = max((end for _, end in offsets), default=0)
    return " ".join(word[0] for word in re.finditer(r"\S+", text) if word.end() > end)


def words_in(text: str, letters: str = r"[^\W_]") -> list[str]:
    """Return the words of a text: `letters` (a regular expression of one), with the marks on and beside them.

    Many scripts write vowels as marks, such as those of India, and in decomposed text accents are.
    """
    return _word(letters, max(text, default="") >= _FIRST_MARK).findall(text)


@cache
def _word(letters: str, marked: bool) -> re.Pattern[str]:
    planes = map(chr, range(ord(_FIRST_MARK), 0x20000) if marked else ())
    marks = "".join(char for char in planes if unicodedata.category(char)[0] == "M")
    return re.compile(f"{letters}(?:{letters}{f'|[{_JOINERS}{marks}]' if marked else ''})*")


def counted(number: int, thing: str) -> str:
    """Return a number with what it counts, such as "1 photo" or "2 photos"."""
    return f"{number} {thing}{'s' * (number != 1)}"


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


def _seen(letter: str) -> str:
    if unicodedata.category(letter) not in _HIDDEN or letter in _JOINERS:
        return letter
    return letter.encode("unicode_escape").decode()
