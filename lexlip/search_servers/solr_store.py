"""Photos in a Solr collection.

A weight is the frequency of the term that is the number of a word, as in `lexlip export solr`, and scores are
exact as they are. Solr has no objects in documents: what it only keeps of a photo is a string of JSON.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from anserini_bridge.given_files import parse_json
from lexlip.other_engines.engine_contract import FIELD, compact
from lexlip.other_engines.servers import SOLR_CONFIG, SOLR_SCHEMA, Solr
from lexlip.search_servers.photo_documents import ABOUT, FORMAT
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

CONFIG = f"lexlip-photos-{FORMAT}"
"""The name of the configset, one for all collections."""

SEEN = 10_000
"""Milliseconds after which searches see what was written, at the latest."""

_ENGINE = Solr()
_ALL = ("id", "model", "scheme", FIELD, "facts")  # what a document needs: the rest is made of these
_ENTRY = ("album", "member", "added")
_WORDS = ("folders", "said", "spelled")
_WHOLE = {"shards.tolerant": False, "omitHeader": False}  # an error, where a shard does not answer
_HEALTH = {"GREEN": "green", "YELLOW": "yellow", "ORANGE": "yellow", "RED": "red"}
_FIELDS = """
    <field name="taken" type="string" indexed="true" stored="false" docValues="true"/>
    <field name="modified" type="long" indexed="true" stored="false" docValues="true"/>
    <field name="place" type="place" indexed="true" stored="false"/>
    <field name="folders" type="string" indexed="true" stored="false" docValues="true" multiValued="true"/>
    <field name="said" type="string" indexed="true" stored="false" multiValued="true"/>
    <field name="spelled" type="string" indexed="true" stored="false" docValues="true" multiValued="true"/>
    <field name="given.caption" type="texts" indexed="true" stored="false" multiValued="true"/>
    <field name="given.name" type="texts" indexed="true" stored="false" multiValued="true"/>
    <field name="given.folder" type="texts" indexed="true" stored="false" multiValued="true"/>
    <field name="given.text" type="texts" indexed="true" stored="false" multiValued="true"/>
    <field name="given.taken" type="texts" indexed="true" stored="false" multiValued="true"/>
    <field name="facts" type="string" indexed="false" stored="true"/>
    <field name="about" type="string" indexed="false" stored="true"/>
    <field name="album" type="string" indexed="true" stored="false" docValues="true"/>
    <field name="member" type="string" indexed="true" stored="false" docValues="true"/>
    <field name="added" type="string" indexed="true" stored="false" docValues="true"/>
    <fieldType name="place" class="solr.LatLonPointSpatialField" docValues="true"/>
    <fieldType name="texts" class="solr.TextField" omitNorms="true" positionIncrementGap="100">
        <analyzer>
            <tokenizer class="solr.WhitespaceTokenizerFactory"/>
        </analyzer>
    </fieldType>"""


class SolrStore(PhotoStore):
    """See `PhotoStore`."""

    @property
    def address(self) -> str:
        return f"{self.server.url}{_ENGINE.root}/{self.server.index}"

    # ---- what it is ----

    def about(self) -> tuple[Any, str] | None:
        (found,) = self._get([ABOUT], ["about", "_version_"])
        if found is None:
            return None
        return {"about": parse_json(found["about"])}, str(found["_version_"])

    def health(self) -> str:
        told = self._admin(f"collections?action=CLUSTERSTATUS&collection={self.server.index}", to="search")
        found = {str(one["health"]) for one in told["cluster"]["collections"].values()}
        if not found <= _HEALTH.keys():
            raise ValueError(f"its health is {', '.join(sorted(found))!r:.20}")
        return max((_HEALTH[one] for one in found), key=("green", "yellow", "red").index)

    def is_empty(self) -> bool:
        self.refresh()  # of what others have written
        answer = self._select(_Query(), query="*:*", limit=0)
        return int(answer["response"]["numFound"]) == 0

    def make(self, there: bool) -> None:
        name = self.server.index
        settings = io.BytesIO()
        schema = SOLR_SCHEMA.format(target=CONFIG, field=FIELD, searched="true", more=_FIELDS)
        with zipfile.ZipFile(settings, "w") as file:
            file.writestr("schema.xml", schema)
            file.writestr("solrconfig.xml", SOLR_CONFIG)
        self._admin(f"configs?action=UPLOAD&name={CONFIG}&overwrite=true", settings.getvalue())
        collections = "collections?action="
        if there:
            self._admin(f"{collections}MODIFYCOLLECTION&collection={name}&collection.configName={CONFIG}")
            self._admin(f"{collections}RELOAD&name={name}")  # on all nodes, before anything is written
        else:
            self._admin(f"{collections}CREATE&name={name}&collection.configName={CONFIG}&numShards=1")

    def begin(self, about: dict[str, Any]) -> None:
        document = {"key": ABOUT, **_stored(about), "_version_": -1}  # which says that there is none
        self._ask("update", compact({"add": {"doc": document}}).encode(), "write")

    def megabytes(self) -> float:
        to = "see the size of"
        aliases = self._admin("collections?action=LISTALIASES", to=to)["aliases"]
        name = aliases.get(self.server.index, self.server.index)
        told = self._admin(f"collections?action=COLSTATUS&collection={name}&segments=true", to=to)
        shards = told[name]["shards"].values()
        leaders = [shard["leader"]["segInfos"]["segments"] for shard in shards]
        return sum(int(segment["sizeInBytes"]) for one in leaders for segment in one.values()) / 1e6

    # ---- writing ----

    def write(self, actions: Sequence[Action]) -> list[str]:
        commands = ",".join(_command(action) for action in actions)
        self._ask(f"update?commitWithin={SEEN}", f"{{{commands}}}".encode(), "write")
        return []

    def refresh(self) -> None:
        self._ask("update", b'{"commit":{}}', "write")

    # ---- asking ----

    def counts(self, conditions: Sequence[Condition]) -> list[int]:
        asked = _Query()
        each = [
            f"{{!query key={place} v={asked.name(all_of([one]))}}}" for place, one in enumerate(conditions)
        ]
        asked.params |= {"facet": True, "facet.query": each}
        answer = self._select(asked, query=asked.whole(A_PHOTO), limit=0)
        found = answer["facet_counts"]["facet_queries"]
        return [int(found[str(place)]) for place in range(len(conditions))]

    def listed(
        self, condition: Condition, fields: Sequence[str], number: int, after: Any
    ) -> tuple[list[Any], Any]:
        asked = _Query()
        body = {"query": asked.whole(condition), "fields": list(fields), "limit": number}
        found, after = self._page(asked, after, sort=f"{fields[0]} asc,key asc", **body)
        return [_document(one) for one in found], after

    def best(
        self, query: Sequence[Scored], allowed: Condition | None, number: int, after: Any
    ) -> tuple[list[tuple[str, float]], Any]:
        asked = _Query()
        filters = [] if allowed is None else [asked.whole(allowed)]
        body = {"query": asked.scored(query), "filter": filters, "fields": ["id", "score"], "limit": number}
        found, after = self._page(asked, after, sort="score desc,id asc,key asc", **body)
        return [(str(one["id"]), score_of(one["score"])) for one in found], after

    def terms(self, field: str, pattern: str, number: int) -> dict[str, int]:
        asked = _Query()
        asked.params |= {"facet": True, "facet.field": field, "facet.matches": pattern}
        asked.params |= {"facet.limit": number, "facet.mincount": 1}
        answer = self._select(asked, query="*:*", limit=0)
        found = answer["facet_counts"]["facet_fields"][field]  # value, number, value, number, …
        return {str(value): int(photos) for value, photos in zip(found[::2], found[1::2], strict=True)}

    def first(self, field: str, order: str) -> str | None:
        asked = _Query()
        body = {"query": asked.whole(Has(field)), "sort": f"{field} {order}", "fields": [field]}
        found = self._select(asked, limit=1, **body)["response"]["docs"]
        return next((str(one[field]) for one in found), None)

    def get(self, keys: Sequence[str], fields: Sequence[str]) -> list[Any]:
        return [None if one is None else _document(one) for one in self._get(keys, fields or _ALL)]

    def _get(self, keys: Sequence[str], fields: Sequence[str]) -> list[Any]:
        """Return documents as Solr has them, also before searches see them."""
        params = {"ids": ",".join(keys), "fl": ",".join(["key", *fields])}
        answer = self._ask("get", compact({"params": {**params, **_WHOLE}}).encode())
        found = {one["key"]: one for one in answer["response"]["docs"]}
        return [found.get(key) for key in keys]

    def _page(self, asked: _Query, after: Any, **body: Any) -> tuple[Any, Any]:
        """Return the documents of a search, and behind what the next ones are."""
        asked.params["cursorMark"] = after or "*"
        answer = self._select(asked, **body)
        return answer["response"]["docs"], answer["nextCursorMark"]

    def _select(self, asked: _Query, **body: Any) -> Any:
        """Return the answer to a search, which covers all documents."""
        return self._ask("select", compact({**body, "params": asked.params}).encode())

    def _ask(self, path: str, body: bytes, to: str = "search") -> Any:
        answer = self.server.send("POST", f"{_ENGINE.root}/{self.server.index}/{path}", body, to)
        _ENGINE.check_whole(answer)
        return answer

    def _admin(self, path: str, body: bytes | None = None, to: str = "make") -> Any:
        method = "GET" if body is None else "POST"
        return self.server.send(method, f"{_ENGINE.root}/admin/{path}", body, to)


def _command(action: Action) -> str:
    """Return a command of an update, in JSON that names it before a colon."""
    key, document = action
    if document is None:
        return f'"delete":{compact({"id": key})}'
    return f'"add":{compact({"doc": {"key": key, **_stored(document)}})}'


def _stored(document: Any) -> dict[str, Any]:
    """Return a document as Solr keeps it."""
    if "album" in document:
        return dict(document)
    if "about" in document:
        return {"about": compact(document["about"])}
    place, taken = document["place"], document["taken"] or ""
    stored = {
        **{name: document[name] for name in ("id", "model", "scheme")},
        FIELD: " ".join(f"{number}|{weight}" for number, weight in document[FIELD].items()),
        **{name: [word for word in document[name] if len(word) <= LONGEST] for name in _WORDS},
        **{f"given.{name}": texts for name, texts in document["given"].items()},
        "facts": compact(document["facts"]),
    }
    if place:
        stored["place"] = f"{place['lat']},{place['lon']}"
    if 0 < len(taken) <= LONGEST:
        stored["taken"] = taken
    if document["modified"] is not None:
        stored["modified"] = document["modified"]
    return stored


def _document(stored: Any) -> dict[str, Any]:
    """Return those fields of a document that Solr keeps, as they were before `_stored`."""
    document = {name: stored[name] for name in (*_ALL, *_ENTRY) if name in stored}
    if FIELD in document:
        pairs = (pair.split("|") for pair in document[FIELD].split())
        document[FIELD] = {number: int(weight) for number, weight in pairs}
    if "facts" in document:
        document["facts"] = parse_json(document["facts"])
    return document


class _Query:
    """The parameters of a search: parts of queries among them, by whose names others take them in."""

    def __init__(self) -> None:
        self.params: dict[str, Any] = dict(_WHOLE)

    def whole(self, condition: Condition) -> str:
        """Return a query of its own."""
        return f"{{!query v={self.name(condition)}}}"

    def scored(self, query: Sequence[Scored]) -> str:
        """Return the query whose score is the sum of its parts."""
        parts = []
        for part in query:
            match part.condition:
                case Holds(column):
                    parts.append(f"{FIELD}:{column}^{part.weight}")
                case other:
                    parts.append(f'_query_:"{self.whole(other)}"^={part.weight:.9f}')
        return " ".join(parts)

    def name(self, condition: Condition) -> str:
        """Return the name of a condition, after a dollar sign."""
        match condition:
            case All(of, none_of):
                met = [f"filter={self.name(one)}" for one in of]
                return self._add(
                    f"{{!bool {' '.join(met + [f'must_not={self.name(one)}' for one in none_of])}}}"
                )
            case Some(of):
                return self._add(f"{{!bool {' '.join(f'should={self.name(one)}' for one in of)}}}")
            case Has(field):
                return self._add(f"{field}:*")
            case Is(field, (value,)):
                return self._add(f"{{!term f={field} v={self._add(value)}}}")
            case Is(field, values):
                return self.name(Some(tuple(Is(field, (value,)) for value in values)))
            case Between(field, first, end):
                ends = (
                    "*" if value is None else json.dumps(value, ensure_ascii=False) for value in (first, end)
                )
                return self._add(f"{field}:[{' TO '.join(ends)}}}")
            case Within(circle):
                where = f"pt={circle.latitude},{circle.longitude} d={circle.kilometres}"
                return self._add(f"{{!geofilt sfield=place {where}}}")
            case Beside(field, words):
                spans = "".join(f"<SpanOr>{''.join(map(_span, ways))}</SpanOr>" for ways in words)
                near = f'<SpanNear slop="0" inOrder="true" fieldName={quoteattr(field)}>{spans}</SpanNear>'
                return self._add(f"{{!xmlparser v={self._add(near)}}}")
            case Holds(column):
                return self.name(Is(FIELD, (f"{column}",)))
            case Keyed(keys):
                return self._add(f"{{!terms f=key v={self._add(','.join(keys))}}}")

    def _add(self, text: str) -> str:
        name = f"p{len(self.params)}"
        self.params[name] = text
        return f"${name}"


def _span(word: str) -> str:
    return f"<SpanTerm>{escape(word)}</SpanTerm>"
