"""Answers: the photos that a query found."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from lexlip.errors import DataError
from lexlip.models.word_table import merged
from lexlip.retrieval.photo import DatedBy
from lexlip.words.plain_text import folded

NOT_ENGLISH = "this does not look like English, which the model knows: say it in English"


@dataclass(frozen=True)
class Hit:
    """A photo that was found.

    Attributes:
        rank: from 1.
        path: where the photo is.
        score: of the first stage.
        words: what each shared word added to the score. Those that people gave the photo have a field before
            them, as in "name:anna"; others are those of the index, if it has words.
        probability: what a cross-encoder says, if one reranked the photo.
        width, height: in pixels, upright; 0: unknown.
        taken: when the photo was taken, "2019-07-01T12:30:00"; None: unknown.
        duplicates: ids of near-duplicates with lower scores, if hits are grouped.
        version: changes with the bytes of the photo's file; "": unknown.
        date, dated: by which it is found by date, and what says so; see `lexlip.retrieval.photo.dated`.
        latitude, longitude: where it was taken, in degrees north and east (WGS 84); None: unknown.
    """

    rank: int
    id: str
    path: str
    score: float
    words: dict[str, float]
    probability: float | None = None
    width: int = 0
    height: int = 0
    taken: str | None = None
    duplicates: list[str] = field(default_factory=list)
    version: str = ""
    date: str | None = None
    dated: DatedBy = "unknown"
    latitude: float | None = None
    longitude: float | None = None

    @property
    def key(self) -> str:
        """The id as an address can hold it."""
        return key_of(self.id)


class Ends(NamedTuple):
    """Where the hits of a query end; see `Answer`."""

    well: float | None
    cut: float | None


NO_ENDS = Ends(None, None)


@dataclass(frozen=True)
class Answer:
    """The hits of a query.

    Attributes:
        query: the sentence, or the picture's path.
        terms: the query's words with their weights, if it has any.
        hits: best first.
        ms: milliseconds by stage: "encode", "search", and "rerank" if a cross-encoder reranked.
        unknown: words of the query that the vocabulary does not have.
        without: words that the query leaves out.
        cursor: asks for the next page of this state of the index; None: these are all.
        cut: the score below which hits are likely to have nothing to do with the query; None: not known.
        well: the score from which on hits fit well; between it and the cut they fit in part. None: not known.
        suggestions: words that tell the hits from other photos.
        unread: the end of a sentence that is too long for the model, which did not read it.
        negations: parts of the sentence that were read as leaving words out, with these words.
        meant: for each unknown word, words of photos that are spelled almost like it, nearest first.
        foreign: whether the sentence does not look like English, and the model lacks its words.
        language: of the sentence: "en", "und" if it is another one, or as it was given; "": nobody looked.
        other_languages: in which the sentence, an English word or phrase, means something else.
        shown_in: the language in which words are shown, "de"; "": English.
        translations: what words of this answer are in this language; those that it lacks stay English.
        install: what would make other languages known, if the sentence is foreign; "" if nothing would.
        unmet: why no photo meets the filters; "" if one does, or there are none.
    """

    query: str
    terms: dict[str, float]
    hits: list[Hit]
    ms: dict[str, float]
    unknown: list[str]
    without: list[str] = field(default_factory=list)
    cursor: str | None = None
    cut: float | None = None
    suggestions: list[str] = field(default_factory=list)
    unread: str = ""
    well: float | None = None
    negations: dict[str, tuple[str, ...]] = field(default_factory=dict)
    meant: dict[str, list[str]] = field(default_factory=dict)
    foreign: bool = False
    unmet: str = ""
    language: str = ""
    other_languages: list[str] = field(default_factory=list)
    install: str = ""
    shown_in: str = ""
    translations: dict[str, str] = field(default_factory=dict)

    def shown(self, word: str) -> str:
        """Return a word as it is shown."""
        return self.translations.get(word, word)

    def as_shown(self, weights: Mapping[str, float]) -> dict[str, float]:
        """Return weights by the words that are shown; see `lexlip.models.word_table.merged`."""
        return merged(weights, self.translations)

    @property
    def not_english(self) -> str:
        """What to say of a sentence that is foreign and has no given names; "" of others."""
        if not self.foreign or self.names:
            return ""
        return f"{NOT_ENGLISH}, or {self.install}" if self.install else NOT_ENGLISH

    @property
    def names(self) -> set[str]:
        """The words of the query that people gave hits; see `Hit.words`."""
        fields = (word.partition(":") for hit in self.hits for word in hit.words if ":" in word)
        return {name for _, _, words in fields for name in words.strip('"').split()}

    @property
    def not_understood(self) -> list[str]:
        """The unknown words that are no names either."""
        names = self.names
        return [word for word in self.unknown if folded(word) not in names]

    @property
    def above_well(self) -> int:
        """The number of hits that fit well."""
        return sum(self.well is None or hit.score >= self.well for hit in self.hits)

    @property
    def by_file_time(self) -> int:
        """The number of hits that do not tell when they were taken, so that only their files date them."""
        return sum(hit.dated == "file" for hit in self.hits)

    @property
    def above(self) -> int:
        """The number of hits above the cut."""
        return sum(self.cut is None or hit.score >= self.cut for hit in self.hits)

    def below(self, number: int = 3) -> list[str]:
        """Return the words that the hits below the cut share with the query, those that add most first."""
        sums: dict[str, float] = {}
        for hit in self.hits:
            if self.cut is not None and hit.score < self.cut:
                for word, share in hit.words.items():
                    sums[word] = sums.get(word, 0.0) + share
        return sorted(sums, key=lambda word: -sums[word])[:number]

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain dictionaries and lists, as `lexlip search --json` prints it."""
        hits = [{**asdict(hit), "key": hit.key} for hit in self.hits]
        counts = {"above_well": self.above_well, "above": self.above, "below": self.below()}
        counts["by_file_time"] = self.by_file_time
        return {**asdict(self), "hits": hits, **counts}


def key_of(id: str) -> str:
    """Return an id as an address can hold it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(id.encode()).rstrip(b"=").decode()


def id_of(key: str) -> str:
    """Return the id that `key_of` was given, or raise DataError."""
    try:
        id = base64.b64decode(key + "=" * (-len(key) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise DataError(f"{key!r} is not the key of a photo") from None
    if key_of(id) != key:
        raise DataError(f"{key!r} is not the key of a photo")
    return id
