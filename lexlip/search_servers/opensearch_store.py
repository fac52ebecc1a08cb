"""Photos in an OpenSearch index.

A weight by the number of a word is a `rank_features`, which holds nine bits; what is left of it is a second
one beside it, so that scores are exact.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from anserini_bridge.given_files import check_form
from lexlip.other_engines.ask import NoIndex, ServerError
from lexlip.other_engines.engine_contract import FIELD, EngineError, compact
from lexlip.other_engines.servers import OpenSearch
from lexlip.retrieval.given_table import GIVEN
from lexlip.search_servers.photo_documents import ABOUT
from lexlip.search_servers.photo_queries import (
    A_PHOTO,
    All,
    Beside,
    Between,
    Condition,
    Has,
    Holds,
    Is,
    Keyed,
    Scored,
    Some,
    Within,
    all_of,
)
from lexlip.search_servers.photo_store import LONGEST, Action, PhotoStore, score_of

REST = "r"
"""Behind the number of a word: what the nine bits of its weight lack."""

_ENGINE = OpenSearch()
_BITS = 9
_BUSY = (429, 503)
_THERE = f"{compact({'update': {'_id': ABOUT}})}\n{compact({'doc': {}})}\n"
"""Lines of a bulk that change nothing, and fail where a bulk has made the index, as it was deleted."""

_WORD = {"type": "keyword", "ignore_above": LONGEST}
_KEPT = {"type": "keyword", "index": False, "doc_values": False}
_TEXTS = {"type": "text", "analyzer": "whitespace", "norms": False}
MAPPING = {
    "dynamic": "strict",
    "properties": {
        "id": {"type": "keyword"},
        "model": _KEPT,
        "scheme": _KEPT,
        FIELD: {"type": "rank_features"},
        "taken": _WORD,
        "modified": {"type": "long"},
        "place": {"type": "geo_point"},
        "folders": _WORD,
        "said": {**_WORD, "doc_values": False},
        "given": {"properties": dict.fromkeys(GIVEN, _TEXTS)},
        "spelled": _WORD,
        "facts": {"type": "object", "enabled": False},
        "about": {"type": "object", "enabled": False},
        **dict.fromkeys(("album", "member", "added"), _WORD),
    },
}


class OpenSearchStore(PhotoStore):
    """See `PhotoStore`."""

    @property
    def address(self) -> str:
        return f"{self.server.url}/{self.server.index}"

    # ---- what it is ----

    def about(self) -> tuple[Any, str] | None:
        try:
            found = self._ask("GET", f"_doc/{ABOUT}")
        except NoIndex as error:
            if error.found:
                return None
            raise
        version = (found[name] for name in ("_index", "_primary_term", "_seq_no"))  # of an alias, too
        return found["_source"], "-".join(map(str, version))

    def health(self) -> str:
        path = f"/_cluster/health/{self.server.index}?timeout=1s"
        status = str(self.server.send("GET", path)["status"])
        if status not in ("green", "yellow", "red"):
            raise ValueError(f"its health is {status!r:.20}")
        return status

    def is_empty(self) -> bool:
        return int(self._ask("GET", "_count")["count"]) == 0

    def make(self, there: bool) -> None:
        if there:
            self._ask("PUT", "_mapping", MAPPING, "make")
        else:
            self._ask("PUT", "", {"mappings": MAPPING}, "make")

    def begin(self, about: dict[str, Any]) -> None:
        self._ask("PUT", f"_create/{ABOUT}", about, "write")

    def megabytes(self) -> float:
        path = "_stats/segments?include_segment_file_sizes=true"  # the size of its store lags behind
        found = self._ask("GET", path, to="see the size of")
        files = found["_all"]["primaries"]["segments"]["file_sizes"].values()
        return sum(int(file["size_in_bytes"]) for file in files) / 1e6

    # ---- writing ----

    def write(self, actions: Sequence[Action]) -> list[str]:
        path = f"/{self.server.index}/_bulk?filter_path=errors,items.*._id,items.*.status,items.*.error"
        lines = "".join(f"{line}\n" for action in actions for line in _lines(action))
        answer = self.server.send("POST", path, f"{_THERE}{lines}".encode(), "write")
        there, *results = [result for item in answer["items"] for result in item.values()]
        if there["status"] == 404:
            raise ServerError(
                f"{self.address} was deleted while it was written, and OpenSearch has made another index of"
                " that name: delete it, and run the same command again"
            )
        failed = [one for one in results if one.get("error")] if answer["errors"] else []
        for one in failed:
            if one["status"] not in _BUSY:
                raise EngineError(f"refuses a photo ({one['error'].get('reason', one['error'])})")
        return [str(one["_id"]) for one in failed]

    def refresh(self) -> None:
        self._ask("POST", "_refresh", to="write")

    # ---- asking ----

    def counts(self, conditions: Sequence[Condition]) -> list[int]:
        filters = {str(place): _query(all_of([one])) for place, one in enumerate(conditions)}
        aggregated = {"each": {"filters": {"filters": filters}}}
        answer = self._search({"size": 0, "query": _query(A_PHOTO), "aggs": aggregated})
        found = answer["aggregations"]["each"]["buckets"]
        return [int(found[str(place)]["doc_count"]) for place in range(len(conditions))]

    def listed(
        self, condition: Condition, fields: Sequence[str], number: int, after: Any
    ) -> tuple[list[Any], Any]:
        first, *others = fields
        body = {"_source": others or False, "sort": [{first: "asc"}], "query": _query(condition)}
        hits, after = self._page(body, number, after)
        return [{first: str(hit["sort"][0]), **hit.get("_source", {})} for hit in hits], after

    def best(
        self, query: Sequence[Scored], allowed: Condition | None, number: int, after: Any
    ) -> tuple[list[tuple[str, float]], Any]:
        asked: dict[str, Any] = {"should": [one for part in query for one in _parts(part)]}
        asked["minimum_should_match"] = 1
        if allowed is not None:
            asked["filter"] = [_query(allowed)]
        body = {"_source": False, "sort": ["_score", {"id": "asc"}], "query": {"bool": asked}}
        hits, after = self._page(body, number, after)
        return [(str(hit["sort"][1]), score_of(hit["sort"][0])) for hit in hits], after

    def terms(self, field: str, pattern: str, number: int) -> dict[str, int]:
        asked = {"found": {"terms": {"field": field, "include": pattern, "size": number}}}
        answer = self._search({"size": 0, "aggs": asked})
        buckets = answer["aggregations"]["found"]["buckets"]
        return {str(bucket["key"]): int(bucket["doc_count"]) for bucket in buckets}

    def first(self, field: str, order: str) -> str | None:
        body = {"size": 1, "_source": False, "sort": [{field: order}], "query": _query(Has(field))}
        hits = _ENGINE.hits(self._search(body))
        return next((str(hit["sort"][0]) for hit in hits), None)

    def get(self, keys: Sequence[str], fields: Sequence[str]) -> list[Any]:
        path = f"_mget?_source_includes={quote(','.join(fields))}" if fields else "_mget"
        answer = self._ask("POST", path, {"ids": list(keys)})
        if failed := next((one["error"] for one in answer["docs"] if "error" in one), None):
            raise EngineError(f"refuses ({failed.get('reason', failed)})")
        return [_document(one["_source"]) if one["found"] else None for one in answer["docs"]]

    def _page(self, body: dict[str, Any], number: int, after: Any) -> tuple[Any, Any]:
        """Return the hits of a search, and behind what the next ones are."""
        if after is not None:
            body = {**body, "search_after": after}
        hits = _ENGINE.hits(self._search({"size": number, **body}))
        return hits, hits[-1]["sort"] if hits else None

    def _search(self, body: dict[str, Any]) -> Any:
        """Return the answer to a search, which covers all documents."""
        path = "_search?allow_partial_search_results=false"
        answer = self._ask("POST", path, {"track_total_hits": False, **body})
        _ENGINE.hits(answer)
        return answer

    def _ask(self, method: str, path: str, body: Any = None, to: str = "search") -> Any:
        text = None if body is None else compact(body).encode()
        return self.server.send(method, f"/{self.server.index}/{path}".rstrip("/"), text, to)


def _lines(action: Action) -> list[str]:
    """Return the lines of a bulk for an action."""
    key, document = action
    if document is None:
        return [json.dumps({"delete": {"_id": key}})]
    if FIELD in document:
        document = {**document, FIELD: features(document[FIELD])}
    return [json.dumps({"index": {"_id": key}}), compact(document)]


def features(words: Mapping[str, int]) -> dict[str, int]:
    """Return weights as Lucene's FeatureField holds them exactly: the first nine bits, and what is left."""
    parts = {}
    for name, weight in words.items():
        rest = weight % (1 << max(weight.bit_length() - _BITS, 0))
        parts[name] = weight - rest
        if rest:
            parts[f"{name}{REST}"] = rest
    return parts


def whole(parts: Any) -> dict[str, int]:
    """Return the weights that `features` was given; ValueError: they are none."""
    check_form(parts, dict[str, int], FIELD)
    words = Counter[str]()
    for name, weight in parts.items():
        words[name.removesuffix(REST)] += weight
    return dict(words)


def _document(source: Any) -> Any:
    """Return a document as it was given to `write`."""
    return {**source, FIELD: whole(source[FIELD])} if FIELD in source else source


def _parts(part: Scored) -> list[Any]:
    """Return a part of a query as OpenSearch is asked for it."""
    match part.condition:
        case Holds(column):
            return [
                {"rank_feature": {"field": f"{FIELD}.{name}", "linear": {}, "boost": part.weight}}
                for name in (column, f"{column}{REST}")
            ]
        case other:
            return [{"constant_score": {"filter": _query(other), "boost": part.weight}}]


def _query(condition: Condition) -> dict[str, Any]:
    """Return a condition as OpenSearch is asked for it."""
    match condition:
        case All(of, none_of):
            return {"bool": {"filter": [*map(_query, of)], "must_not": [*map(_query, none_of)]}}
        case Some(of):
            return {"bool": {"should": [*map(_query, of)], "minimum_should_match": 1}}
        case Has(field):
            return {"exists": {"field": field}}
        case Is(field, values):
            return {"terms": {field: list(values)}}
        case Between(field, first, end):
            ends = {"gte": first, "lt": end}
            return {"range": {field: {name: value for name, value in ends.items() if value is not None}}}
        case Within(circle):
            place = {"lat": circle.latitude, "lon": circle.longitude}
            return {"geo_distance": {"distance": f"{circle.kilometres}km", "place": place}}
        case Beside(field, words):
            each = [{"any_of": {"intervals": [{"match": {"query": way}} for way in ways]}} for ways in words]
            return {"intervals": {field: {"all_of": {"ordered": True, "max_gaps": 0, "intervals": each}}}}
        case Holds(column):
            return {"rank_feature": {"field": f"{FIELD}.{column}", "linear": {}}}
        case Keyed(keys):
            return {"ids": {"values": list(keys)}}
