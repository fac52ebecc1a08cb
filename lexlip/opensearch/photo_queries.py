"""What photos must meet, as OpenSearch is asked for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lexlip.errors import DataError
from lexlip.opensearch.photo_documents import REST
from lexlip.other_engines.engine_contract import FIELD
from lexlip.queries.query_language import FIELDS
from lexlip.retrieval.filters import FROM_WHERE, LAST, Filters, words_of
from lexlip.retrieval.given_words import Phrase
from lexlip.words.plain_text import composed

Condition = dict[str, Any]
"""A query of OpenSearch's that is met or not."""

A_PHOTO: Condition = {"exists": {"field": "id"}}
"""Every document but the one that says what the index is."""


def all_of(conditions: Iterable[Condition], none_of: Iterable[Condition] = ()) -> Condition:
    """Return the condition that all of some, and none of others, are met."""
    return {"bool": {"filter": [A_PHOTO, *conditions], "must_not": list(none_of)}}


def any_of(conditions: Iterable[Condition]) -> Condition:
    """Return the condition that at least one of some is met."""
    return {"bool": {"should": list(conditions), "minimum_should_match": 1}}


def weighted(weights: Mapping[int, int]) -> list[Condition]:
    """Return the parts of a query for weighted words, by column: their scores are added."""
    return [
        {"rank_feature": {"field": f"{FIELD}.{name}", "linear": {}, "boost": weight}}
        for column, weight in weights.items()
        for name in (column, f"{column}{REST}")
    ]


def holds(column: int) -> Condition:
    """Return the condition that a photo holds a word."""
    return {"rank_feature": {"field": f"{FIELD}.{column}", "linear": {}}}


def meets(filters: Filters) -> list[Condition]:
    """Return the conditions of filters; see `Filters.to_sql`, which says the same in SQL."""
    if filters.within and not filters.near:
        raise DataError(FROM_WHERE)
    asked: list[Condition] = []
    if filters.after:
        asked.append({"range": {"taken": {"gte": filters.after}}})
    if filters.before:
        asked.append({"range": {"taken": {"lt": filters.before + LAST}}})
    if filters.below:
        asked.append({"term": {"folders": composed(filters.below)}})
    asked += [{"term": {"said": word}} for word in words_of(filters.caption or "")]
    if (circle := filters.circle) is not None:
        place = {"lat": circle.latitude, "lon": circle.longitude}
        asked.append({"geo_distance": {"distance": f"{circle.kilometres}km", "place": place}})
    return asked


def was_given(phrase: Phrase, fields: Sequence[str] = FIELDS, beside: bool = True) -> Condition:
    """Return the condition that a photo has the words of a phrase in one field; beside each other, or not."""
    exact = beside and len(phrase.words) > 1
    return any_of((_beside if exact else _together)(phrase, f"given.{name}") for name in fields)


def _together(phrase: Phrase, field: str) -> Condition:
    return {"bool": {"filter": [{"terms": {field: list(ways)}} for ways in phrase.spellings()]}}


def _beside(phrase: Phrase, field: str) -> Condition:
    words = [
        {"any_of": {"intervals": [{"match": {"query": way}} for way in ways]}} for ways in phrase.spellings()
    ]
    return {"intervals": {field: {"all_of": {"ordered": True, "max_gaps": 0, "intervals": words}}}}
