"""What photos must meet, and what makes them good hits; each engine is asked for it in its own words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lexlip.errors import DataError
from lexlip.retrieval.circle import Circle
from lexlip.retrieval.filters import FROM_WHERE, LAST, Filters, words_of
from lexlip.retrieval.given_words import TAKEN, Phrase
from lexlip.search_servers.photo_documents import key_of
from lexlip.words.plain_text import composed


@dataclass(frozen=True)
class All:
    """All of some conditions are met, and none of others."""

    of: tuple[Condition, ...]
    none_of: tuple[Condition, ...]


@dataclass(frozen=True)
class Some:
    """At least one of some conditions is met."""

    of: tuple[Condition, ...]


@dataclass(frozen=True)
class Has:
    """A field has a value."""

    field: str


@dataclass(frozen=True)
class Is:
    """A field has one of some values, or holds one of some words."""

    field: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Between:
    """A field's value is not below `first`, and below `end`; None: of no matter."""

    field: str
    first: str | int | None = None
    end: str | int | None = None


@dataclass(frozen=True)
class Within:
    """A photo was taken in a circle on the Earth."""

    circle: Circle


@dataclass(frozen=True)
class Beside:
    """A field holds words beside each other, in this order; each in one of some spellings."""

    field: str
    words: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Holds:
    """A photo shows a word, given by its column."""

    column: int


@dataclass(frozen=True)
class Keyed:
    """A photo's document has one of some keys."""

    keys: tuple[str, ...]


Condition = All | Some | Has | Is | Between | Within | Beside | Holds | Keyed
"""It is met, or not."""


@dataclass(frozen=True)
class Scored:
    """A part of a query: what a photo gets that meets a condition; for `Holds`, times the word's weight."""

    condition: Condition
    weight: float


A_PHOTO: Condition = Has("id")
"""Every document of a photo."""


def all_of(conditions: Iterable[Condition], none_of: Iterable[Condition] = ()) -> Condition:
    """Return the condition that all of some, and none of others, are met."""
    return All((A_PHOTO, *conditions), tuple(none_of))


def any_of(conditions: Iterable[Condition]) -> Condition:
    """Return the condition that at least one of some is met."""
    return Some(tuple(conditions))


def with_ids(ids: Iterable[str]) -> Condition:
    """Return the condition that a photo has one of some ids."""
    return Keyed(tuple(map(key_of, ids)))


def meets(filters: Filters, by_file: bool) -> list[Condition]:
    """Return the conditions of filters; see `Filters.to_sql`, which says the same in SQL.

    `by_file`: whether documents have the times of files that date photos; an older index lacks them.
    """
    if filters.within and not filters.near:
        raise DataError(FROM_WHERE)
    asked: list[Condition] = []
    if filters.after or filters.before:
        first, end = filters.after or None, filters.before + LAST if filters.before else None
        files = [Between("modified", *filters.written)] if by_file and filters.file_dates else []
        asked.append(any_of([Between("taken", first, end), *files]))
    if filters.below:
        asked.append(Is("folders", (composed(filters.below),)))
    asked += [Is("said", (word,)) for word in words_of(filters.caption or "")]
    if (circle := filters.circle) is not None:
        asked.append(Within(circle))
    if filters.listed is not None:
        asked.append(with_ids(filters.listed))
    return asked


def was_given(phrase: Phrase, fields: Sequence[str], beside: bool = True) -> Condition:
    """Return the condition that a photo has the words of a phrase in one field; beside each other, or not."""
    where = _beside if beside and len(phrase.words) > 1 else _together
    return any_of(where(phrase, f"given.{name}") for name in fields if name != TAKEN or phrase.dates)


def _together(phrase: Phrase, field: str) -> Condition:
    return All(tuple(Is(field, ways) for ways in phrase.spellings()), ())


def _beside(phrase: Phrase, field: str) -> Condition:
    return Beside(field, tuple(phrase.spellings()))
