"""What people may write beside a sentence: words to add, to leave out, and to weigh.

::

    query  = { text | mark | field ":" value }, with white space between them
    mark   = "+" word [ "^" factor ]     adds the word, as heavy as the heaviest (or `factor` times that)
           | "-" word                    leaves out photos that hold the word
           | word "^" factor             the word, with its weight multiplied; 0 drops it
    word   = letters and digits, with their marks; or an emoji, which stands for its name in Unicode
    factor = a number from 0 to 100, such as 2 or 0.5
    field  = "name" | "folder" | "caption" | "text"
                                         only photos whose file, folder, captions, or text have the words
           | "near"                      only photos that were taken near this place
    value  = a word, or words in quotes

The sentence that a model encodes is the text with the words that are weighed, and without those that are
added or left out. A query without marks is a sentence as it stands, except that plain negations leave words
out, too: "no dog on the beach" means "on the beach -dog". A photo's words say only what it shows, so "no dog"
would find dogs. A negation stays text where it says what is to be seen, or where leaving out would lose the
photo of a caption:

- signs: "a no parking sign", "no smoking", "no entry", "no left turn";
- what people wear: to a photo of "a man with no shirt" belongs the word "shirt";
- what is a part of something else: "tracks with no trains on them", "a train yard with no trains";
- what names no thing: "no one", "no longer".

As in other search engines, NOT in capitals is a negation, too ("dog NOT cat"), except in "DO NOT ENTER".

In quotation marks it always stays text. A request, such as "show me photos of dogs", means "dogs". For a
mistyped word, `nearest_words` says what may have been meant.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lexlip.errors import DataError
from lexlip.words.function_words import FUNCTION_WORDS
from lexlip.words.language_codes import language_of
from lexlip.words.plain_text import readable, spelled, tidied, words_in

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ENGLISH, UNKNOWN = "en", "und"
"""Languages of a query, as in BCP 47; UNKNOWN is not English, and nothing more is known."""

LARGEST_FACTOR = 100.0  # times that a word's weight is multiplied at most
SWAP = 0.9  # edits that two neighbouring letters count which changed places: the likeliest slip
LETTERS = 3  # of a word for each edit that it may have; one edit is always allowed
SHORTEST = 3  # a shorter word resembles too many

_FACTOR = r"\d+\.?\d*|\.\d+"
_WEIGHT = re.compile(r"\^([-+.\d].*|)")

FIELDS = ("caption", "name", "folder", "text")
_EXAMPLES, _EXAMPLE = {"near": "{0}:48.1,11.6 or {0}:lyon"}, '{0}:anna or {0}:"anna maria"'
_NARROWED = rf'(?i)(?<!\S)({"|".join((*FIELDS, "near"))}):(["“][^"“”]*["”]|\S*)'

_FOLDERS = r"[^\"“”]*/"
_QUOTED = re.compile(r'["“]([^"“”]*)["”]')
_WORD = r"[^\W\d_]+"
_ARTICLE = r"(?:(?:an?|any|the)\s+)?"
_OR = rf"(?:\s*,)?\s+(?:or|nor|and(?=\s+(?:\w+s|people|men|women|children)\b))\s+{_ARTICLE}"
_COMMA = rf"\s*,\s*{_ARTICLE}"
_NEGATION = (
    r"(?i)(?:\b(?:(?:but|and)\s+)?with\s+|\b(?:but|and|there\s+(?:is|are))\s+|,\s*)?"  # goes with it
    rf"(?<![\w'’-])(?:no|without|not\s+any|but\s+not|(?-i:NOT(?!\s+[A-Z]{{2}})))\s+{_ARTICLE}"
    rf"(?P<words>{_WORD}(?:(?:{_COMMA}{_WORD})*{_OR}{_WORD})?)(?![\w'’-])"
)
_MAY_NEGATE = re.compile('no|without|["“]', re.IGNORECASE)  # without one, nothing is left out
_BETWEEN = rf"(?i){_OR}|{_COMMA}"
_NEXT = r"\s*(\w*)"
_BACK = r"(?i)(?:\s+\w+)?\s+(?:it|them|him|her)\b|\s+on\s*(?:$|[^\w\s])"

_NAMED = "photos?|photographs?|pictures?|pics?|images?|snaps?|snapshots?|shots?"
_OF_A_PHOTO = r"(?:of|with|from|showing)"
_DETERMINED = r"(?:(?:all|any|some|a|an|the|my|our|of|every)\s+)*"
_REQUEST = (  # how people ask another one for photos
    r"(?i)\s*(?:(?:please|(?:can|could|would)\s+you)\s+)*(?:"
    r"(?:(?:show|find|give|get)\s+(?:me|us)|find|search(?:\s+for)?|(?:i(?:'m|\s+am)\s+)?look(?:ing)?\s+for"
    r"|i(?:\s+want|'d\s+like|\s+would\s+like)\s+to\s+see|where\s+(?:are|is)|do\s+i\s+have)\s+"
    rf"{_DETERMINED}(?:{_NAMED})\s+{_OF_A_PHOTO}\s+"
    r"|(?:show|find)\s+(?:me|us)\s+"
    rf"|{_DETERMINED}(?:photos|pictures|pics|images)\s+{_OF_A_PHOTO}\s+"
    r')(?=["“]?\w)'
)
_MAY_ASK = "(?i)photo|pic|image|snap|shot|show|find"  # _REQUEST takes long to compile
_OWNED = r"(?i)(?<=\w's)\s+(?:photos|pictures|pics|images)\s*$"

_NO_THING = frozenset("access admittance entrance entry evil exit longer vacancy way".split())
_THINGS_IN_ING = frozenset("awning building ceiling king painting railing ring string swing wing".split())
_WORN = frozenset(
    "bra cloth clothes clothing coat diaper dress jacket jean pant shirt shoe short sneaker sock sweater top"
    " trouser underwear".split()
)
_IRREGULAR = {"child": "children", "man": "men", "person": "people", "woman": "women"}
_OTHER_NUMBER = {**_IRREGULAR, **{plural: singular for singular, plural in _IRREGULAR.items()}}


class QueryError(DataError):
    """A query that cannot be understood; the message names the place."""


@dataclass(frozen=True)
class Query:
    """A query as it is understood.

    Attributes:
        text: as it was written.
        sentence: what a model encodes; may be empty.
        factors: by which the weights of words are multiplied.
        added: words, by their weights in multiples of the heaviest.
        without: words that photos must not hold, those of negations too.
        negations: the parts of the text that were read as leaving words out, with these words.
        narrowed: what photos must have: a field, and what was written behind it.
        language: of the sentence: ENGLISH, UNKNOWN, or another code; "": to be found out.
        chosen: words of marks that are no part of the text, and so in no language if the vocabulary has them.

    Raises:
        QueryError: it holds half a character (a lone surrogate), or there is no such language.
    """

    text: str
    sentence: str
    factors: dict[str, float] = field(default_factory=dict)
    added: dict[str, float] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    negations: dict[str, tuple[str, ...]] = field(default_factory=dict)
    narrowed: tuple[tuple[str, str], ...] = ()
    language: str = ""
    chosen: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            " ".join([self.text, self.sentence, *self.words]).encode()
        except UnicodeEncodeError:
            raise QueryError(
                f"the query {readable(self.text)} holds half a character: write it again"
            ) from None
        if self.language and not language_of(self.language):
            code = readable(self.language)
            raise QueryError(f"'{code}' is not the code of a language, such as de or zh-Hant")

    @property
    def marked(self) -> bool:
        """Whether it is more than a sentence."""
        return bool(self.factors or self.added or self.without)

    @property
    def near(self) -> str | None:
        """The place near which photos must have been taken; None if there is none."""
        return next((value for name, value in self.narrowed if name == "near"), None)

    @property
    def plain(self) -> str:
        """The sentence and the words that were added, for what takes sentences only."""
        return " ".join([self.sentence, *self.added]).strip()

    @property
    def words(self) -> list[str]:
        """The words of all marks."""
        return [*self.factors, *self.added, *self.without]

    @property
    def minus(self) -> list[str]:
        """The words that marks leave out."""
        read = {word for words in self.negations.values() for word in words}
        return [word for word in self.without if word not in read]

    def with_negations(self, negations: dict[str, tuple[str, ...]]) -> Query:
        """Return the query with negations that leave out other words."""
        words = [word for words in negations.values() for word in words]
        return replace(self, without=tuple(dict.fromkeys([*self.minus, *words])), negations=negations)


def parse_query(text: str, adjust: Iterable[str] = (), negations: bool = True, language: str = "") -> Query:
    """Return what a query means; of two marks of a word that say the same kind of thing the later one counts.

    Args:
        text: a sentence, with or without marks.
        adjust: marks that change the words without being part of the sentence.
        negations: whether plain negations leave words out; otherwise they are text. Those of other languages
            than English are read by whoever knows their words.
        language: of the text, as in `Query.language`, or a code of three letters: deu is de.

    Raises:
        QueryError: the text is none, a mark is wrong, or `adjust` has something else.
    """
    if not isinstance(text, str):
        raise QueryError(f"a query is a text, and not {type(text).__name__}")
    kept, marks = [], []
    plain = spelled(text)
    rest, narrowed = _read_fields(tidied(text))
    for token in re.finditer(r"\S+", spelled(rest)):
        mark = _mark(token[0], f"at character {token.start() + 1} of the query" if plain == text else "")
        if mark is None:
            kept.append(token[0])
        else:
            marks.append(mark)
            if mark[0] == "^":
                kept.append(mark[1])
    sentence = " ".join(kept) if marks or narrowed else plain
    sentence = without_request(sentence)
    sentence, read = read_negations(sentence) if negations else (sentence, {})
    if not words_in(sentence):
        sentence = ""  # of "?!" a model would guess a meaning
    written = len(marks)
    for given in adjust:
        mark = _mark(spelled(given).strip(), "")
        if mark is None:
            raise QueryError(f"{given!r} is not +word, -word or word^2: give one of these")
        marks.append(mark)
    query = Query(
        text,
        sentence,
        factors={word: factor for sign, word, factor in marks if sign == "^"},
        added={word: factor for sign, word, factor in marks if sign == "+"},
        without=tuple(dict.fromkeys(word for sign, word, _ in marks if sign == "-")),
        narrowed=narrowed,
        language=language_of(language) or language,
        chosen=tuple(word for _, word, _ in marks[written:]),
    )
    return query.with_negations(read)


def without_request(text: str) -> str:
    """Return what a text asks photos of: "show me photos of dogs" asks for dogs, "Anna's photos" for Anna."""
    if not re.search(_MAY_ASK, text):
        return text
    found = re.match(_REQUEST, text)
    return re.sub(_OWNED, "", text[found.end() :] if found else text)


def _read_fields(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return a text with spaces in place of its fields, and these."""
    if ":" not in text:
        return text, ()
    found = list(re.finditer(_NARROWED, text))
    for one in found:
        if not words_in(spelled(one[2])):
            raise QueryError(
                f"{one[0]!r} at character {one.start() + 1} of the query needs a word after it,"
                f" as in {_EXAMPLES.get(one[1].lower(), _EXAMPLE).format(one[1].lower())}"
            )
    places = {one[2].strip('"“”').casefold(): one[0] for one in found if one[1].lower() == "near"}
    if len(places) > 1:
        raise QueryError(f"a photo is near one place: give {' or '.join(places.values())}, not both")
    rest = re.sub(_NARROWED, lambda one: " " * len(one[0]), text)
    return rest, tuple((one[1].lower(), _value(one[1].lower(), one[2])) for one in found)


def _value(name: str, typed: str) -> str:
    """Return the words of a field; an emoji may be several, which stand beside each other.

    Of a path the end is the name of the file; "24/7" is none.
    """
    words = spelled(typed).strip()
    file = re.sub(_FOLDERS, "", words) if name == "name" else ""
    words = file if "." in file and words_in(file) else words
    return f'"{words}"' if " " in words and typed[0] not in '"“' else words


def _mark(token: str, place: str) -> tuple[str, str, float] | None:
    """Return the kind of a mark ("+", "-" or "^"), its word and its factor; None if the token is text."""
    sign, marked = (token[0], token[1:]) if token.startswith(("+", "-")) else ("^", token)
    word = next(iter(words_in(marked)), "")
    if not marked.startswith(word):
        return None
    rest = marked.removeprefix(word)
    weighed = sign == "^" and _WEIGHT.fullmatch(rest)
    if not word or (sign == "^" and not weighed):
        return None
    where = f" {place}" if place else ""
    if rest and not rest.startswith("^"):
        raise QueryError(
            f"{token!r}{where} is not understood: after {sign} a word of letters and digits must stand alone"
        )
    if sign == "-" and rest:
        raise QueryError(f"{token!r}{where} is not understood: a word that is left out has no weight")
    factor = rest.removeprefix("^")
    if (rest or weighed) and (not re.fullmatch(_FACTOR, factor) or float(factor) > LARGEST_FACTOR):
        raise QueryError(
            f"{token!r}{where} needs a number from 0 to {LARGEST_FACTOR:g} after ^, not {factor!r}"
        )
    return sign, word, float(factor) if factor else 1.0


def read_negations(text: str) -> tuple[str, dict[str, tuple[str, ...]]]:
    """Return a text without its negations, and these, as they were written, with what they leave out.

    The quotation marks that keep a negation as text are taken away. Of a text that only leaves words out, ""
    is left.
    """
    if not _MAY_NEGATE.search(text):
        return text, {}
    said = Counter(re.findall(r"[^\W_]+", text.lower()))

    def things(named: str) -> tuple[str, ...]:
        words = tuple(word.lower() for word in re.split(_BETWEEN, named))
        return words if all(is_thing(word, said) for word in words) else ()

    return read_negations_by(re.compile(_NEGATION), text, things)


def read_negations_by(
    pattern: re.Pattern[str],
    text: str,
    things: Callable[[str], tuple[str, ...]],
    function_words: Collection[str] = FUNCTION_WORDS,
    goes_on: bool = False,
) -> tuple[str, dict[str, tuple[str, ...]]]:
    """Do what `read_negations` does for negations that a pattern finds, in any language.

    `things` says which words are left out, given the group "words" of the pattern; () keeps it as text.
    A negation ends before one of the function words, unless the text `goes_on` behind it with any word.
    """
    negations: dict[str, tuple[str, ...]] = {}

    def read(found: re.Match[str]) -> str:
        ends = goes_on or ends_before(found.string[found.end() :], function_words)
        words = things(found["words"]) if ends else ()
        if not words:
            return found[0]
        negations[found[0].strip(" ,")] = words
        return " "

    parts = _QUOTED.split(text)  # every second one was quoted
    for place, part in enumerate(parts):
        if place % 2 == 0:
            parts[place] = pattern.sub(read, part)
        elif not pattern.search(part):
            parts[place] = f'"{part}"'
    if not negations:
        return "".join(parts), {}
    kept = " ".join("".join(parts).split()).strip(" ,")
    content = set(re.findall(r"[^\W_]+", kept.lower())).difference(function_words)
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


def is_plural(noun: str) -> bool:
    """Return whether a noun stands for several things, by the same rules."""
    return noun in _IRREGULAR.values() or any(len(form) < len(noun) for form in forms(noun))


def is_thing(word: str, said: Mapping[str, int]) -> bool:
    """Return whether a word names a thing that photos may lack, and that the sentence names only once."""
    names = forms(word)
    if word in FUNCTION_WORDS or not _WORN.isdisjoint(names) or not _NO_THING.isdisjoint(names):
        return False
    if (word.endswith("ing") and word not in _THINGS_IN_ING) or said.get("sign") or said.get("signs"):
        return False
    return sum(said.get(name, 0) for name in names) == 1


def ends_before(rest: str, function_words: Collection[str]) -> bool:
    """Return whether a noun phrase has ended, given the rest of the sentence."""
    following = re.match(_NEXT, rest)
    assert following is not None
    following_word = following[1].lower()
    return (not following_word or following_word in function_words) and not re.match(_BACK, rest)


def nearest_words(word: str, counts: Mapping[str, int], number: int, letters: int = LETTERS) -> list[str]:
    """Return the known words, at most `number`, that are spelled most like one, in any case.

    Of equals those are first that are in most photos, which `counts` says. `letters` are LETTERS, or more.
    """
    import numpy as np  # not needed to read a query

    word = word.lower()
    most = max(1, len(word) // letters)  # edits
    known = [one for one in counts if abs(len(one) - len(word)) <= most]
    if len(word) < SHORTEST or not known:
        return []
    edits = edit_distances(word, known)
    near = np.flatnonzero(edits <= most)
    order = sorted(near.tolist(), key=lambda n: (edits[n], -counts[known[n]], known[n]))
    return [known[n] for n in order[:number]]


def edit_distances(word: str, others: list[str]) -> NDArray[np.float64]:
    """Return how many letters to put in, leave out, replace or swap to turn a word into each of the others.

    This is the Damerau-Levenshtein distance in which no letter is edited twice (optimal string alignment),
    but for the `SWAP`; it is worked out for all words at once.
    """
    import numpy as np

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
